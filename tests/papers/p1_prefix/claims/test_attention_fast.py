from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_fast
from tests.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/corollary-j.3": "holds",
        "P1/corollary-j.3-hyper": "violated",
    }
    broken = {
        "P1/corollary-j.3": {"order": 2},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_hyper_attention_gains_nothing_from_m_where_tokens_grow_too():
    finding = check("P1/corollary-j.3-hyper", seed=1)
    assert measured(finding, "L = m") > -0.1
    assert measured(finding, "L = 256") < -0.4


def test_an_error_that_falls_is_accepted(monkeypatch):
    monkeypatch.setattr(attention_fast, "error", lambda fast, m, L, settings, seed: m**-0.5)
    assert check("P1/corollary-j.3-hyper").verdict is Verdict.HOLDS
