import pytest

from attangent.audit import Conclusion, Finding, Hypothesis
from attangent.audit.report.phrases import headline, reason
from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record

FLAT = Conclusion.of_trend("error over m", "<=", -0.5, [8, 16, 32, 64], [1, 1, 1, 1])
IN_LIMIT = Hypothesis("width", ">=", 64, 8, in_limit=True)


def words(*findings):
    result = Result(tuple(make_record("P2/lemma-1", finding, seed) for seed, finding in enumerate(findings)))
    return f"{headline(result)}: {reason(result)}"


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (bounded(0.5), "Holds: no hypotheses are stated; its conclusion was measured to hold."),
        (bounded(2.0), "Violated (it states no hypotheses): “error” should be ≤ 1; measured 2."),
        (
            bounded(2.0, hypotheses=(Hypothesis("h", ">=", 1, 2),)),
            "Violated with its hypotheses met: “error” should be ≤ 1; measured 2.",
        ),
        (
            bounded(2.0, differs=("made-up data",)),
            "Not reproduced in another setting: “error” should be ≤ 1; measured 2.",
        ),
        (
            bounded(0.5, differs=("made-up data",)),
            "Measured to hold: the setting differs from the paper's (made-up data); "
            "its conclusion was measured to hold.",
        ),
        (bounded(1e-8), "Open: “error” is kept by 8 decades: it cannot fail at this size."),
        (Finding((), crash="ValueError: no"), "Crashed: The check raised: ValueError: no"),
        (
            Finding((Conclusion("c", "<=", 1.0, 0.5, threshold="ours"),)),
            "Open: No line has a threshold of the statement's own.",
        ),
    ],
)
def test_verdicts_in_words(finding, said):
    assert words(finding) == said


def test_a_trend_says_over_how_many_sizes_and_seeds():
    flat = Finding((FLAT,), (IN_LIMIT,))
    assert words(flat, flat, flat) == (
        "Violated in the limit it speaks of: “error over m” should be ≤ −0.5; measured 0, "
        "the exponent over 4 sizes."
    )
    assert words(flat).endswith("Seen with 1 of 1 seeds: a limit takes at least three, and all.")
