from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_fast
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
