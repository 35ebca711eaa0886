"""The tests of `papers/p1/attention_prefix.py`."""

from attangent.attention.features import Taylor
from attangent.audit import Verdict
from tests.audit.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/equation-7": "holds",
        "P1/theorem-4.1": "holds",
    }
    broken = {
        "P1/equation-7": {"orders": [1, 2]},
        "P1/theorem-4.1": {"order": 2},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_entries_beyond_the_theorem_are_only_measured():
    finding = check("P1/theorem-4.1", bounds=[2.1], lengths=[64, 256], d=1)
    assert finding.verdict is Verdict.MEASURED


def test_polynomial_features_in_place_of_exp_break_the_equation(monkeypatch):
    """Features scaled by 1/d, as Lemma J.7 prints them, do not give the attention of the prefix."""
    right = Taylor.forward
    monkeypatch.setattr(Taylor, "forward", lambda self, x: right(self, x * self.dim**-0.25))
    assert check("P1/equation-7").verdict is Verdict.VIOLATED


def test_fixed_maps_plateau_while_values_depend_on_keys():
    finding = check("P1/theorem-4.1", seed=3)
    assert measured(finding, "elu") < 0.15
    assert measured(finding, "printed") < 0.15
    assert measured(finding, "Taylor, order 2") < 0.15
