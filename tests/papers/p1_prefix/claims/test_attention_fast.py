import math

from attangent.attention import features
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_fast
from attangent.papers.p1_prefix.claims.attention_fast import measure, promised_order
from tests.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/corollary-j.3": "violated",
        "P1/corollary-j.3-hyper": "measured",
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_hyper_attention_gains_nothing_from_m_where_tokens_grow_too():
    finding = check("P1/corollary-j.3-hyper", seed=1)
    assert measured(finding, "L = m") > -0.1
    assert measured(finding, "L = 64") < -0.4


def test_an_error_that_falls_is_accepted(monkeypatch):
    monkeypatch.setattr(attention_fast, "error", lambda fast, m, L, settings, seed: m**-0.5)
    assert check("P1/corollary-j.3-hyper").verdict is Verdict.MEASURED
    monkeypatch.setattr(attention_fast, "error", lambda fast, m, L, settings, seed: 1.0 + m**0.3)
    assert check("P1/corollary-j.3-hyper").verdict is Verdict.NOT_REPRODUCED


def test_corollary_j_3_part_by_part(monkeypatch):
    parts = {name: part.verdict for name, part in check("P1/corollary-j.3").judgements.items()}
    assert parts["cost in L"] is Verdict.HOLDS
    assert parts["cost in m"] is parts["unbounded values of the tokens"] is Verdict.VIOLATED
    monkeypatch.setattr(attention_fast, "number_of_features", lambda d, bound, m: 20)
    assert check("P1/corollary-j.3").judgements["cost in m"].verdict is Verdict.HOLDS


class TestLemmaJ7(SteadySuite):
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
