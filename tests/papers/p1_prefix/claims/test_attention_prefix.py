import math

from attangent.attention.features import Taylor
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import attention_prefix
from tests.papers.harness import SteadySuite, check, measured


class TestClaims(SteadySuite):
    found = {
        "P1/equation-7": "holds",
        "P1/theorem-4.1": "violated",
    }

    def examine(self, finding):
        assert finding.figures
        assert finding.numbers


def test_theorem_4_1_part_by_part(monkeypatch):
    parts = {name: part.verdict for name, part in check("P1/theorem-4.1").judgements.items()}
    assert set(parts.values()) == {Verdict.VIOLATED}
    assert not measured(check("P1/theorem-4.1", order=2), "error x m, entries in [-1, 1]") <= 1.0
    monkeypatch.setattr(attention_prefix, "number_of_features", lambda *args: 20)
    monkeypatch.setattr(attention_prefix, "features_in_regime", lambda log2_m, scale: 20)
    parts = {name: part.verdict for name, part in check("P1/theorem-4.1").judgements.items()}
    assert parts == {
        "cost in the regime of the theorem": Verdict.HOLDS,
        "cost at fixed L": Verdict.HOLDS,
        "unbounded values of the tokens": Verdict.VIOLATED,
    }


def test_features_outnumber_every_power_of_the_length_with_the_square_root_and_not_with_d():
    def exponents(scale):
        return [
            math.log(attention_prefix.features_in_regime(k, scale)) / (k * math.log(2)) for k in (20, 80, 320)
        ]

    by_root = exponents(0.5)
    by_d = exponents(1.0)
    assert by_root[0] < by_root[1] < by_root[2]
    assert by_d[0] > by_d[1] > by_d[2]


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
