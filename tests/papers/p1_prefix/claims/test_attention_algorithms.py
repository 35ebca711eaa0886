"""The tests of `papers/p1/attention_algorithms.py`."""

import torch

from attangent.attention import ntk_attention
from attangent.attention.state import PrefixState
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_algorithms
from tests.papers.harness import SteadySuite, check


class TestClaims(SteadySuite):
    found = {
        "P1/algorithm-1": "holds",
        "P1/algorithm-2": "holds",
    }
    broken = {
        "P1/algorithm-1": {"printed_m": 0.5},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_prefix_attention_that_forgets_its_prefix_is_found_out(monkeypatch):
    def plain(q, k, v, prefix_k, prefix_v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    monkeypatch.setattr(attention_algorithms, "prefix_attention", plain)
    assert check("P1/algorithm-1").verdict is Verdict.VIOLATED


def test_ntk_attention_that_doubles_its_masses_is_found_out(monkeypatch):
    def doubled(q, k, v, state):
        return ntk_attention(q, k, v, PrefixState(state.features, state.Z, 2 * state.k))

    monkeypatch.setattr(attention_algorithms, "ntk_attention", doubled)
    assert check("P1/algorithm-2").verdict is Verdict.VIOLATED
