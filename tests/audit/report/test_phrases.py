import pytest

from attangent.audit import Conclusion, Finding, Hypothesis
from attangent.audit.report.phrases import headline, reason, summary
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
        "Violated in the limit of the statement: “error over m” should be ≤ −0.5; measured 0, "
        "the exponent over 4 sizes (95 %: 0 to 0)."
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


def result(claim, measured=0.5, **origin):
    return Result((make_record(claim, bounded(measured), **origin),))


def test_what_stands_what_fails_and_what_is_repaired():
    results = [result("P2/lemma-1"), result("P2/lemma-2", 2.0), result("P2/lemma-3", 3.0)]
    repairs = {"P2/lemma-2": result("P2/lemma-2-repaired", kind="ours")}
    sentences = list(map(str, summary(results, repairs)))
    assert sentences[0] == "We checked 3 statements of this paper: 1 holds and 2 are violated."
    assert sentences[1].startswith("Statements that hold: Section 3, Lemma 3.1 (Title of P2/lemma-1).")
    assert "Title of P2/lemma-2" in sentences[2]
    assert "Title of P2/lemma-3" in sentences[2]
    assert "no known repair" in sentences[3]
    assert "lemma-2" in sentences[3]
    assert 3 <= len(sentences) <= 6


def test_a_repair_that_fails_is_none():
    results = [result("P2/lemma-2", 2.0)]
    repairs = {"P2/lemma-2": result("P2/lemma-2-repaired", 2.0, kind="ours")}
    assert str(summary(results, repairs)[-1]) == "None of these has a repaired form yet."


def test_long_lists_are_cut_and_theorems_come_first():
    results = [*(result(f"P2/figure-{i}") for i in range(7)), result("P2/theorem-1")]
    stands = summary(results, {})[1]
    assert stands.named[0].claim == "P2/theorem-1"
    assert stands.more == 2
    assert "and 2 more." in str(stands)


def test_theorems_are_named_before_propositions_and_lemmas():
    results = [result(f"P2/{name}") for name in ("lemma-1", "claim-2", "proposition-3", "theorem-4")]
    named = [one.claim for one in summary(results, {})[1].named]
    assert named == ["P2/theorem-4", "P2/proposition-3", "P2/lemma-1", "P2/claim-2"]
