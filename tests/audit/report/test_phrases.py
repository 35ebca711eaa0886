import pytest

from attangent.audit import Conclusion, Finding, Hypothesis, Proof, Step
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
        (bounded(0.5), "Holds: The check declares no hypotheses; its conclusion holds."),
        (bounded(2.0), "Violated: “error” should be ≤ 1; measured 2."),
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
            "Measured to hold: The setting differs from the paper's (made-up data); its conclusion holds.",
        ),
        (
            bounded(0.5, differs=("made-up data",), hypotheses=(Hypothesis("h", ">=", 2, 1),)),
            "Seen in another setting: The setting differs from the paper's (made-up data); its conclusion "
            "holds.",
        ),
        (bounded(1e-8), "Open: “error” holds by 8 decades: it cannot fail at this size."),
        (Finding((), crash="ValueError: no"), "Crashed: The check raised an error: ValueError: no"),
        (
            Finding((Conclusion("c", "<=", 1.0, 0.5, threshold="ours"),)),
            "Open: The statement gives no threshold for any of the measured quantities.",
        ),
    ],
)
def test_verdicts_in_words(finding, said):
    assert words(finding) == said


def test_a_trend_says_over_how_many_sizes_and_seeds():
    flat = Finding((FLAT,), (IN_LIMIT,))
    assert words(flat, flat, flat) == (
        "Violated in the limit of the statement: “error over m” should be ≤ −0.5; measured 0 with this seed, "
        "the exponent over 4 sizes (all seeds, 95 %: 0 to 0)."
    )
    assert words(flat).endswith(
        "This fails with 1 of 1 seeds; an estimate refutes if at least three fail, and all."
    )


def test_only_a_statement_that_has_none_states_no_hypotheses():
    printed = Result((make_record("P2/lemma-1", bounded(2.0), unconditional=True),))
    assert headline(printed) == "Violated (it states no hypotheses)"


def test_a_smaller_setting_says_what_was_seen_there():
    assert words(bounded(0.5, smaller="digits")).startswith("Seen in a smaller setting: Run in a smaller")
    assert words(bounded(2.0, smaller="digits")).startswith("Not seen in a smaller setting: “error”")


def test_an_interval_that_covers_the_bound_is_called_undecided():
    line = Conclusion("gain", ">=", 0.0, 0.05, interval=(-0.1, 0.2))
    assert words(Finding((line,))) == (
        "Open: Undecided: “gain” is 0.05 (95 %: −0.1 to 0.2), and should be ≥ 0."
    )


def test_an_exact_argument_is_the_reason():
    proof = Proof((Step("One is less than two.", "1 < 2", 1 < 2),))
    said = words(bounded(2.0, proof=proof, refuted=True))
    assert said.startswith("Violated, by an exact argument: 1 step, checked in exact arithmetic. “error”")
    assert words(bounded(0.5, proof=proof, refuted=True)).endswith("1 step, checked in exact arithmetic.")
