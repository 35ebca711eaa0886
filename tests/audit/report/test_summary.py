from attangent.audit.report.summary import summary
from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record


def result(claim, measured=0.5, **origin):
    return Result((make_record(claim, bounded(measured), **origin),))


def test_what_stands_what_fails_and_what_is_repaired():
    results = [result("P2/lemma-1"), result("P2/lemma-2", 2.0), result("P2/lemma-3", 3.0)]
    repairs = {"P2/lemma-2": result("P2/lemma-2-repaired", kind="ours")}
    sentences = list(map(str, summary(results, repairs)))
    assert sentences[0] == "Of 3 statements of this paper that were checked, 1 holds and 2 are violated."
    assert sentences[1].startswith("What stands: Section 3, Lemma 3.1 (Title of P2/lemma-1).")
    assert "Title of P2/lemma-2" in sentences[2]
    assert "Title of P2/lemma-3" in sentences[2]
    assert "no repair is known" in sentences[3]
    assert "lemma-2" in sentences[3]
    assert 3 <= len(sentences) <= 6


def test_a_repair_that_fails_is_none():
    results = [result("P2/lemma-2", 2.0)]
    repairs = {"P2/lemma-2": result("P2/lemma-2-repaired", 2.0, kind="ours")}
    assert str(summary(results, repairs)[-1]) == "None of these has a repaired form here yet."


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
