"""The tests of `papers/p5/data.py`."""

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM
from tests.papers.harness import ClaimSuite, checking, ours

check = checking(seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/claim-c.2": "violated",
        "P5/claim-c.2-repaired": "holds",
        "P5/definition-6.1": "holds",
    }
    benign = {
        "P5/claim-c.2": {"tolerance": 0.5},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding) if "risk with" not in line.name)


def test_a_wrong_wedge_is_found_out(monkeypatch):
    right = ResidualSSM.wedge.fget
    monkeypatch.setattr(ResidualSSM, "wedge", property(lambda self: 1.1 * right(self)))
    assert check("P5/definition-6.1").verdict is Verdict.VIOLATED


def test_other_weights_are_found_out(monkeypatch):
    right = ResidualSSM.features
    monkeypatch.setattr(ResidualSSM, "features", lambda self: 1.01 * right(self))
    assert check("P5/claim-c.2-repaired").verdict is Verdict.VIOLATED
