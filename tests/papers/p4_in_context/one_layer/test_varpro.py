"""Variable projection: what it reaches with few heads, its gradient against differences."""

import pytest
import torch

from attangent.papers.p4_in_context.one_layer.varpro import Coordinates, Projected
from tests.icl.examples import model


def test_varpro_reaches_far_with_fewer_heads_than_tokens():
    trained = model(heads=5, d=16)
    result = trained.fit("varpro", steps=400, target=1e-9)
    assert result.stopped == "target"
    assert trained.gap() == pytest.approx(result.gap, rel=1e-4)
    assert result.gap < 1e-9


def test_varpro_with_more_tokens_in_the_prompt_than_dimensions():
    trained = model(heads=4, d=3)
    assert trained.fit("varpro", steps=100).gap < 0.1 * trained.limit.least_loss


def test_projected_gradient_equals_differences():
    trained = model(heads=4)
    coordinates = Coordinates(trained.dictionary)
    projected = Projected(trained, coordinates)
    P = coordinates.of(trained.Q)
    gap, gradient = projected.value_and_gradient(P)
    direction = gradient / gradient.norm()
    ahead, behind = (projected.value_and_gradient(P + s * direction)[0] for s in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx(gradient.norm().item(), rel=1e-6)
    trained.w = projected.weights(coordinates.attention(P))
    assert trained.gap() == pytest.approx(gap, rel=1e-10)
    torch.testing.assert_close(coordinates.back(P, trained.Q), trained.Q)
