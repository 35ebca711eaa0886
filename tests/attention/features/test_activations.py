"""Elu, Printed and Learned against their formulas."""

import math

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, ntk_attention
from attangent.attention.features import Learned
from tests.attention.cases import make_map, make_state, normal, tokens


@pytest.mark.parametrize("activation", ["elu", "gelu"])
def test_first_feature_is_the_constant_and_the_rest_follow_the_formula(activation):
    features = Learned.draw(4, 6, seed=0, activation=activation, gain=2.0, dtype=torch.float64)
    x = normal(9, 4)
    y = x @ features.weight.T + features.bias
    wanted = torch.nn.functional.elu(y) + 1 if activation == "elu" else torch.nn.functional.gelu(y)
    assert (features(x)[:, 0] == 1).all()
    torch.testing.assert_close(features(x)[:, 1:], wanted)


def test_first_weights_have_the_wished_variance():
    weight = Learned.draw(64, 257, seed=1, gain=0.3, dtype=torch.float64).weight
    assert weight.std().item() == pytest.approx(0.3 / 8, rel=0.05)


def test_damping_acts_on_what_the_map_is_given():
    R = normal(2, 1, 4, seed=1, scale=0.3)
    plain = Learned.draw(4, 6, seed=0, heads=2, activation="gelu", dtype=torch.float64)
    features = Learned(plain.weight, plain.bias, "gelu", R)
    x = normal(2, 9, 4)
    torch.testing.assert_close(features(x), plain(x - (x @ R.mT) @ R))
    assert "damping" in features.state_dict()
    assert len(list(features.parameters())) == 2
    assert not plain.same_as(features)
    assert not features.same_as(plain)


@pytest.mark.parametrize("name", ["learned-elu", "learned-gelu", "learned-damped"])
def test_training_moves_the_map_and_lowers_the_loss(name):
    q, k, v = tokens(2, 2, 2, 6, 6, 4)
    teacher, state = make_state(name, 4, 2, seed=5), PrefixState.zero(make_map(name, 4, 2), 2)
    target = ntk_attention(q, k, v, teacher).detach()
    before = state.features.get_parameter("weight").detach().clone()
    optimiser = torch.optim.Adam(state.parameters(), lr=0.03)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (ntk_attention(q, k, v, state) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert not torch.equal(before, state.features.get_parameter("weight"))


@pytest.mark.usefixtures("without_hook")
def test_impossible_settings_are_refused():
    with pytest.raises(AttangentError, match="activation is 'relu'"):
        Learned(normal(3, 4), torch.zeros(3), activation="relu")  # type: ignore[arg-type]
    with pytest.raises(AttangentError, match="bias has shape"):
        Learned(normal(3, 4), torch.zeros(4))
    for bias in (torch.zeros(3, dtype=torch.long), torch.full((3,), torch.nan)):
        with pytest.raises(AttangentError, match="bias"):
            Learned(normal(3, 4), bias)
    with pytest.raises(AttangentError, match="size is 1"):
        Learned.draw(4, 1, seed=0)
    for damping in (normal(5, 4), normal(2, 1, 4), normal(1, 3), normal(2, 4) * torch.nan):
        with pytest.raises(AttangentError, match="damping has"):
            Learned(normal(3, 4), torch.zeros(3), damping=damping)


def test_elu_and_printed_values_against_the_formulas():
    dim = 16
    x = normal(100, dim, scale=2)
    scaled = x * dim**-0.25
    torch.testing.assert_close(make_map("elu", dim)(x), torch.nn.functional.elu(scaled) + 1)
    below = dim**-0.25 * torch.where(x >= 0, x, x.exp()) + 1
    torch.testing.assert_close(make_map("printed", dim)(x), below)


def test_printed_formula_jumps_at_zero_and_elu_does_not():
    dim = 16
    step = torch.zeros(2, dim, dtype=torch.float64)
    step[0] -= 1e-12
    printed, elu = make_map("printed", dim)(step), make_map("elu", dim)(step)
    assert printed[0, 0] - printed[1, 0] == pytest.approx(dim**-0.25, abs=1e-9)
    assert (elu[0] - elu[1]).abs().max() < 1e-11


@pytest.mark.parametrize("name", ["elu", "printed"])
def test_authors_maps_give_d_where_exp_gives_one(name):
    zero = torch.zeros(1, 9, dtype=torch.float64)
    features = make_map(name, 9)
    assert (features(zero) @ features(zero).T).item() == 9
    assert math.exp(0) == 1
