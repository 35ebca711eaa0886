from attangent.audit import Failure
from attangent.audit.report.summaries import proof_graph, summarise
from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record


def result(claim, measured=0.5, nature="lemma", **origin):
    return Result((make_record(claim, bounded(measured), nature=nature, **origin),))


FAILURE = Failure("P2/theorem-1", "Theorem 1 falls", "n = 2", root="the norm of the labels is dropped")
RESULTS = [
    result("P2/theorem-1", 2.0, "main result", failure=FAILURE),
    result("P2/lemma-2", 2.0, "quotation"),
    result("P2/theorem-3", 0.5, "main result"),
    result("P2/lemma-4", 0.5),
]


def test_what_falls_what_is_slight_and_what_stands():
    repairs = {"P2/theorem-1": result("P2/theorem-1-repaired", kind="ours")}
    summary = summarise("P2", RESULTS, repairs)
    assert summary.count == (
        "P2: of 4 statements checked, 1 false result (a main result) from 1 cause, 1 misquoted known result."
    )
    assert [cause.name for cause in summary.causes] == ["the norm of the labels is dropped"]
    assert [sentence.text for sentence in summary.slight] == ["Misquoted known results"]
    texts = ["Main results that hold", "Also hold", "Repaired, and the repaired statement holds"]
    assert [sentence.text for sentence in summary.stands] == texts


def test_a_paper_whose_main_results_stand_says_so():
    assert summarise("P2", RESULTS[1:], {}).count.endswith("No main result fails.")


def test_a_long_list_is_cut_after_the_weightiest():
    results = [result(f"P2/lemma-{i}") for i in range(8)] + [result("P2/theorem-9", nature="main result")]
    main, also = summarise("P2", results, {}).stands
    assert str(main) == "Main results that hold: Title of P2/theorem-9 (P2/theorem-9)."
    assert str(also).endswith("and 2 more.")


def test_every_verdict_has_a_sentence():
    results = [
        Result((make_record("P2/lemma-1", bounded(0.5, smaller="digits"), nature="experiment"),)),
        Result((make_record("P2/lemma-2", bounded(2.0, differs=("data",)), nature="experiment"),)),
        Result((make_record("P2/lemma-3", bounded(float("nan")), nature="lemma"),)),
    ]
    texts = " ".join(sentence.text for sentence in summarise("P2", results, {}).stands)
    for part in ("smaller setting", "Not reproduced", "Undecided"):
        assert part in texts


def results(**uses):
    return [
        Result((make_record(f"P2/{name}", bounded(0.5), rests_on=tuple(f"P2/{used}" for used in names)),))
        for name, names in uses.items()
    ]


def places(picture):
    return {box.result.claim.removeprefix("P2/"): (box.x, box.y) for box in picture.boxes}


def test_each_statement_stands_right_of_what_it_rests_on():
    picture = proof_graph(results(a=(), b=("a",), c=("a", "b"), alone=()))
    at = places(picture)
    assert set(at) == {"a", "b", "c"}
    assert at["a"][0] < at["b"][0] < at["c"][0]
    assert len(picture.arrows) == 3
    assert picture.width > at["c"][0]


def test_no_picture_without_dependence():
    assert proof_graph(results(a=(), b=())) is None
    assert proof_graph(results(a=("unknown",))) is None
    assert proof_graph([]) is None


def test_a_circle_is_drawn_all_the_same():
    picture = proof_graph(results(a=("b",), b=("a",), c=("c", "a")))
    assert len(picture.boxes) == 3
    assert len(set(places(picture).values())) == 3
