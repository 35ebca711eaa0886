"""What falls is counted by weight and by root cause."""

from attangent.audit import Failure
from attangent.audit.causes import as_json, causes, headlines, in_words, weight_of, weights
from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record

ROOT = "P1/definition-g.1"


def result(claim, nature, cause="", measured=2.0, consequence="it falls", **origin):
    root = "the value part is missing" if cause == claim else ""
    failure = Failure(cause, consequence, "n = 1", root=root) if cause else None
    return Result((make_record(claim, bounded(measured), nature=nature, failure=failure, **origin),))


CHAIN = [
    result("P1/theorem-3.2", "main result", "P1/lemma-i.4", rests_on=("P1/lemma-i.4",)),
    result("P1/lemma-i.4", "lemma", ROOT, rests_on=("P1/lemma-h.3",)),
    result("P1/lemma-h.3", "lemma", ROOT, rests_on=(ROOT,)),
    result(ROOT, "definition", ROOT),
]
OTHERS = [
    result("P1/lemma-d.6", "quotation", "P1/lemma-d.6", consequence="used nowhere"),
    result("P1/lemma-3.1", "lemma", "P1/lemma-3.1", consequence="A constant changes: nd for sqrt(nd)"),
    result("P1/lemma-h.1", "lemma", measured=0.5),
    result("P1/lemma-h.1-repaired", "lemma", kind="ours"),
]


def test_symptoms_are_grouped_under_their_root_in_the_order_of_the_proofs():
    gravest, *others = causes(CHAIN + OTHERS)
    assert gravest.id == ROOT
    assert gravest.name == "the value part is missing"
    names = ["definition-g.1", "lemma-h.3", "lemma-i.4", "theorem-3.2"]
    assert [member.claim for member in gravest.results] == [f"P1/{name}" for name in names]
    assert {cause.id for cause in others} == {"P1/lemma-d.6", "P1/lemma-3.1"}


def test_failed_statements_are_counted_by_weight():
    assert weights(CHAIN + OTHERS) == {"false result": 3, "definition": 1, "constant": 1, "quotation": 1}
    assert in_words(CHAIN + OTHERS) == (
        "3 false results (one of them a main result) from 1 cause, 1 wrong definition or assumption, "
        "1 missing factor or constant, 1 misquoted known result"
    )


def test_a_constant_is_not_a_false_result():
    assert weight_of(OTHERS[1]) == "constant"
    assert weight_of(CHAIN[1]) == "false result"


def test_what_holds_and_what_is_ours_does_not_fall():
    assert in_words(OTHERS[2:]) == "nothing fails"
    assert causes(OTHERS[2:]) == []


def test_a_cause_outside_the_run_leaves_the_statement_its_own_root():
    (cause,) = causes(CHAIN[:1])
    assert cause.id == "P1/theorem-3.2"


def test_causes_that_name_each_other_end_somewhere():
    circle = [
        result("P1/lemma-1", "lemma", "P1/lemma-2"),
        result("P1/lemma-2", "lemma", "P1/lemma-1"),
    ]
    assert {member.claim for cause in causes(circle) for member in cause.results} == {
        "P1/lemma-1",
        "P1/lemma-2",
    }


def test_the_withdrawal_of_a_paper_stands_beside_its_count():
    (line,) = headlines([result("P3/theorem-2", "main result")])
    assert line.startswith("P3 (audited in the version withdrawn in December 2024): 1 false result")
    assert as_json([result("P3/theorem-2", "main result")])["P3"]["status"].endswith("December 2024")


def test_json_names_each_cause_with_its_claims():
    paper = as_json(CHAIN + OTHERS)["P1"]
    assert paper["failed"]["false result"] == 3
    assert paper["causes"][0]["root"] == ROOT
    assert len(paper["causes"][0]["claims"]) == 4
