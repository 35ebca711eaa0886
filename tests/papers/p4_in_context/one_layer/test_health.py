"""Health of an initialisation: saturation, dependent heads, zeta_0."""

import pytest
import torch

from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.health import InitialisationWarning
from tests.icl.examples import some_model


def test_saturation_is_named_with_the_way_out():
    dictionary = Dictionary.random(K=12, d=40, m=4, N=6, tau=0.1, tokens="gaussian")
    with pytest.warns(InitialisationWarning, match="smaller logit_std"):
        model = OneLayerAttention(dictionary, heads=6, logit_std=40.0)
    assert model.health().saturated
    assert not OneLayerAttention(dictionary, heads=24).health().complaints


def test_dependent_heads_are_named():
    dictionary = Dictionary.random(K=12, d=6, m=4, N=6, tau=0.1)
    with pytest.warns(InitialisationWarning, match="numerically dependent"):
        alike = OneLayerAttention(dictionary, heads=6, logit_std=1e-8)
    assert alike.health().zeta < 1e-12 < OneLayerAttention(dictionary, heads=6).health().zeta
    assert any("numerically dependent" in complaint for complaint in alike.health().complaints)


def test_zeta_is_the_least_eigenvalue():
    model = some_model(heads=9)
    values = []
    for k in range(7):
        B = model.dictionary.Z_bar @ model.attention()[:, :, k].T
        values.append(torch.linalg.eigvalsh(B @ B.T)[0].item())
    assert model.health().zeta == pytest.approx(min(values), rel=1e-6)
    assert some_model(heads=3).health().zeta == 0
