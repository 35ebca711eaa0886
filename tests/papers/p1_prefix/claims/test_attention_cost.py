import torch

from attangent.attention import ntk_attention
from attangent.attention.state import PrefixState
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_cost
from tests.papers.harness import SteadySuite, check, measured


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

    monkeypatch.setattr(attention_cost, "prefix_attention", plain)
    assert check("P1/algorithm-1").verdict is Verdict.VIOLATED


def test_ntk_attention_that_doubles_its_masses_is_found_out(monkeypatch):
    def doubled(q, k, v, state):
        return ntk_attention(q, k, v, PrefixState(state.features, state.Z, 2 * state.k))

    monkeypatch.setattr(attention_cost, "ntk_attention", doubled)
    assert check("P1/algorithm-2").verdict is Verdict.VIOLATED


class TestSizes(SteadySuite):
    found = {
        "P1/figure-3": "not reproduced",
        "P1/appendix-c-parameters": "holds",
    }
    broken = {
        "P1/appendix-c-parameters": {"lora_matrices": 1},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_figure_3_is_right_about_parameters_and_is_not_reproduced_by_counting():
    parts = {name: part.verdict for name, part in check("P1/figure-3").judgements.items()}
    assert parts == {"parameters": Verdict.MEASURED, "run time": Verdict.NOT_REPRODUCED}


def test_a_quadratic_count_would_be_measured(monkeypatch):
    monkeypatch.setattr(attention_cost, "count_3", lambda L, m, d: m**2 * d)
    monkeypatch.setattr(attention_cost, "_break_even", lambda *given: 0)
    assert check("P1/figure-3").verdict is Verdict.MEASURED


def test_printed_example_of_figure_3():
    """m = 1024, d = 32: 35840 and 4128 parameters."""
    finding = check("P1/figure-3")
    assert measured(finding, "parameters of prefix attention") == 35840
    assert measured(finding, "parameters of NTK-Attention") == 4128
