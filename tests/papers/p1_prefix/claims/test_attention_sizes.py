"""The tests of `papers/p1/attention_sizes.py`."""

from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_sizes
from tests.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
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


def test_figure_3_holds_for_parameters_and_is_not_reproduced_by_counting():
    parts = {name: part.verdict for name, part in check("P1/figure-3").judgements.items()}
    assert parts == {"parameters": Verdict.HOLDS, "run time": Verdict.NOT_REPRODUCED}


def test_a_quadratic_count_would_be_measured(monkeypatch):
    monkeypatch.setattr(attention_sizes, "count_3", lambda L, m, d: m**2 * d)
    monkeypatch.setattr(attention_sizes, "_break_even", lambda *given: 0)
    assert check("P1/figure-3").verdict is Verdict.MEASURED


def test_printed_example_of_figure_3():
    """m = 1024, d = 32: 35840 and 4128 parameters."""
    finding = check("P1/figure-3")
    assert measured(finding, "parameters of prefix attention") == 35840
    assert measured(finding, "parameters of NTK-Attention") == 4128
