import pytest

from attangent.audit import Verdict
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/theorem-3.2-steps": "violated",
        "P1/lemma-h.9-sign": "violated",
        "P1/appendix-h-hoeffding": "violated",
        "P1/footnote-2": "violated",
        "P1/equation-18": "violated",
    }
    benign = {
        "P1/theorem-3.2-steps": {"init": "symmetric"},
        "P1/lemma-h.9-sign": {"sign": -1.0},
        "P1/appendix-h-hoeffding": {"steps": 0},
        "P1/footnote-2": {"signs": True},
        "P1/equation-18": {"extra": 0.0},
    }


def test_without_signs_the_output_is_the_mean_of_the_prefix():
    ratio = check("P1/footnote-2").numbers["|F(0)| / (m sigma^2 |x|), longest prefix"]
    assert ratio == pytest.approx(1.0, abs=0.15)


def test_the_trend_of_the_steps_is_that_of_the_first_loss():
    finding = check("P1/theorem-3.2-steps")
    assert finding.conclusions[0].kept is False
    assert finding.verdict is Verdict.VIOLATED
