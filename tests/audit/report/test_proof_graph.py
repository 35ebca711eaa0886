from attangent.audit.report.proof_graph import proof_graph
from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record


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
