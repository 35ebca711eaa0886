"""The tests of `papers/p5/kernel.py`."""

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.theory.attention_model import VarianceGate
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P5/definition-f.2": "holds",
        "P5/lemma-5.1": "measured",
        "P5/lemma-h.1": "measured",
    }
    broken = {
        "P5/definition-f.2": {"n": 32},
        "P5/lemma-5.1": {"m": 64, "rate": 100.0},
        "P5/lemma-h.1": {"rate": 2.1, "widths": [32, 48, 64, 96]},
    }

    def examine(self, finding):
        assert finding.figures


def test_kernel_claim_finds_a_wrong_formula(monkeypatch):
    right = VarianceGate.__call__
    monkeypatch.setattr(VarianceGate, "__call__", lambda self, block: right(self, block) + 1e-6)
    assert check("P5/definition-f.2").verdict is Verdict.VIOLATED


class TestKernelParts(ClaimSuite):
    found = {
        "P5/lemma-k.3": "holds",
    }
    broken = {
        "P5/lemma-k.3": {"constant": 0.1},
    }

    def examine(self, finding):
        assert finding.figures
