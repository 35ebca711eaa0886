import math

from attangent.attention import features
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims.attention_lemma import measure, promised_order
from tests.papers.harness import SteadySuite, check


class TestClaims(SteadySuite):
    found = {
        "P1/lemma-j.7": "holds",
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_an_order_too_low_is_found_out(monkeypatch):
    monkeypatch.setattr(features, "order_for", lambda bound, tolerance: 1)
    assert check("P1/lemma-j.7").verdict is Verdict.VIOLATED


def test_lemma_case_measures_the_corner():
    """The corners -B, B carry the largest error, and the order below would miss the accuracy there."""
    case = measure(1e-3, 1.0, 2, 10, seed=0)
    assert 1e-4 < case.relative_error <= 1e-3
    assert case.size == math.comb(case.order + 2, 2)
    assert promised_order(0.5, 2.0) == 4.0
