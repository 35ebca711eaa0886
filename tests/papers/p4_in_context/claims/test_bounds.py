"""The tests of `papers/p4/bounds.py`."""

import math

import pytest
import torch

from attangent.audit import Verdict
from attangent.icl import Dictionary, RidgeLimit
from attangent.papers.p4_in_context.claims import bounds
from attangent.papers.p4_in_context.claims.dictionary_setting import Reparametrised
from attangent.papers.p4_in_context.one_layer.certificate import log10_L_61, sizes
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/lemma-7": "holds",
        "P4/lemma-8": "holds",
        "P4/lemma-10": "violated",
        "P4/lemma-10-repaired": "holds",
    }
    broken = {
        "P4/lemma-7": {"tokens": "gaussian", "d": 40},
        "P4/lemma-8": {"tokens": "gaussian", "d": 40},
    }
    benign = {
        "P4/lemma-10": {"log10_gammas": [0, 2], "log10_alphas": [-1, 0]},
    }


def test_the_parts_of_lemma_10():
    parts = check("P4/lemma-10").judgements
    assert parts["any alpha and gamma"].verdict is Verdict.VIOLATED
    assert parts["those of Theorem 1"].verdict is Verdict.HOLDS


def proof_of_lemma_10(t):
    """Curvature along E_11 in the example of the proof, gamma = alpha = t, and |z_1 - z_2|^2 + 2 m tau."""
    tokens = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    features = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    dictionary = Dictionary(tokens, features, 2, 0.1)
    l = Reparametrised(dictionary, RidgeLimit(dictionary).A, t)
    E = torch.zeros(1, 2, 2, dtype=torch.float64)
    E[0, 0, 0] = 1e-5
    alpha = torch.full((1, 3), t, dtype=torch.float64)
    change = l.gradient(E, alpha)[0] - l.gradient(-E, alpha)[0]
    return change[0, 0, 0].item() / 2e-5, 5 + 2 * dictionary.ridge, dictionary


def test_the_curvature_in_the_proof_of_lemma_10_is_that_of_the_loss():
    curvature, energy, _ = proof_of_lemma_10(10.0)
    assert curvature == pytest.approx(10.0**4 * energy / 6, rel=1e-6)


def test_the_curvature_in_the_proof_of_lemma_10_exceeds_the_printed_constant():
    _, energy, dictionary = proof_of_lemma_10(1.0)
    excess = [4 * t + math.log10(energy / 6) - log10_L_61(sizes(dictionary, 1), t, t) for t in (2, 6, 10)]
    assert excess[0] < 0 < excess[2]
    assert excess[2] - excess[1] == pytest.approx(0.5 * 4, abs=0.01)


def test_a_constant_without_the_square_is_found_out(monkeypatch):
    monkeypatch.setattr(bounds, "log10_L_corrected", bounds.log10_L_61)
    assert check("P4/lemma-10-repaired", points=15).verdict is Verdict.VIOLATED
