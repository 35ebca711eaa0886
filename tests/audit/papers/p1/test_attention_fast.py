"""The tests of `papers/p1/attention_fast.py`."""

from tests.audit.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/corollary-j.3": "holds",
    }
    broken = {
        "P1/corollary-j.3": {"order": 2},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_hyper_attention_gains_nothing_from_m_where_tokens_grow_too():
    finding = check("P1/corollary-j.3", seed=1)
    assert measured(finding, "HyperAttention, L = m") < 0.2
    assert measured(finding, "HyperAttention, L = 256") > 0.4
