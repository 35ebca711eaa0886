"""The kernel claims of P5: what they find, and that each can find the opposite."""

import math

import pytest

from attangent.audit import Verdict, registry
from attangent.audit.papers.p5.scalar_regression import exponent, sizes_of_data_and_weights
from attangent.kernels.factors import VarianceGate

FOUND = {
    "P5/definition-f.2": "holds",
    "P5/lemma-5.1": "measured",
    "P5/lemma-h.1": "measured",
    "P5/lemma-k.3": "holds",
}


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    finding = check(id, seed=1)
    assert finding.verdict == verdict
    assert finding.figures


BROKEN = {
    "P5/definition-f.2": {"n": 32},
    "P5/lemma-5.1": {"m": 64, "rate": 100.0},
    "P5/lemma-h.1": {"rate": 2.1},
    "P5/lemma-k.3": {"constant": 0.1},
}


@pytest.mark.parametrize(("id", "changes"), BROKEN.items(), ids=BROKEN)
def test_violated_where_a_hypothesis_is_broken(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


def test_kernel_claim_finds_a_wrong_formula(monkeypatch):
    right = VarianceGate.__call__
    monkeypatch.setattr(VarianceGate, "__call__", lambda self, block: right(self, block) + 1e-6)
    assert check("P5/definition-f.2").verdict is Verdict.VIOLATED


def test_constants_are_those_of_the_definitions():
    settings = registry.get("P5/lemma-k.3").quick
    B, D = sizes_of_data_and_weights(settings)
    assert pytest.approx(math.sqrt(1.0001 * math.log(32 * 8 / 0.05))) == B
    assert pytest.approx(math.sqrt(math.log(512 / 0.05))) == D
    assert exponent(settings) == pytest.approx(8 * B**2 * D * math.log10(math.e))
