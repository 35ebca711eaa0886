from attangent.attention.features import Taylor
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_prefix
from tests.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/equation-7": "holds",
        "P1/theorem-4.1": "violated",
    }
    broken = {
        "P1/theorem-4.1": {"order": 2},
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_theorem_4_1_part_by_part(monkeypatch):
    parts = {name: part.verdict for name, part in check("P1/theorem-4.1").judgements.items()}
    assert parts["error"] is Verdict.HOLDS
    assert parts["cost"] is parts["unbounded values of the tokens"] is Verdict.VIOLATED
    assert check("P1/theorem-4.1", order=2).judgements["error"].verdict is Verdict.VIOLATED
    monkeypatch.setattr(attention_prefix, "_smallest_size", lambda *given: 20)
    monkeypatch.setattr(attention_prefix, "_error_with_values", lambda *given: 1e-3)
    assert check("P1/theorem-4.1").verdict is Verdict.HOLDS


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
