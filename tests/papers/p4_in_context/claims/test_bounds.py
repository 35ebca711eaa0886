"""The tests of `papers/p4/bounds.py`."""

from attangent.audit import Verdict
from attangent.papers.p4_in_context.claims import bounds
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/lemma-7": "holds",
        "P4/lemma-8": "holds",
        "P4/lemma-10": "violated",
        "P4/lemma-10-repaired": "holds",
    }
    broken = {
        "P4/lemma-7": {"tokens": "gaussian", "d": 40},
        "P4/lemma-8": {"tokens": "gaussian", "d": 40},
    }
    benign = {
        "P4/lemma-10": {"log10_gammas": [0, 2], "log10_alphas": [-1, 0]},
    }


def test_the_parts_of_lemma_10():
    parts = check("P4/lemma-10").judgements
    assert parts["any alpha and gamma"].verdict is Verdict.VIOLATED
    assert parts["those of Theorem 1"].verdict is Verdict.HOLDS


def test_a_constant_without_the_square_is_found_out(monkeypatch):
    monkeypatch.setattr(bounds, "log10_L_corrected", bounds.log10_L_61)
    assert check("P4/lemma-10-repaired", points=15).verdict is Verdict.VIOLATED
