"""The tests of `papers/p1/attention_sizes.py`."""

from attangent.audit import Verdict
from tests.audit.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/figure-3": "violated",
        "P1/appendix-c-parameters": "holds",
    }
    broken = {
        "P1/appendix-c-parameters": {"lora_matrices": 1},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_figure_3_holds_but_for_the_quadratic_growth():
    assert check("P1/figure-3", growth=0.999).verdict is Verdict.HOLDS


def test_printed_example_of_figure_3():
    """m = 1024, d = 32: 35840 and 4128 parameters."""
    finding = check("P1/figure-3")
    assert measured(finding, "parameters of prefix attention") == 35840
    assert measured(finding, "parameters of NTK-Attention") == 4128
