import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState
from attangent.attention.backends.torch.portable import token_part
from attangent.attention.features import Elu, Taylor
from attangent.attention.fit import (
    _active_set,
    _pivoted,
    non_negative_solution,
    ridge_solution,
)
from attangent.attention.masks import Mask
from tests.attention.cases import MAPS, make_map, normal


@pytest.fixture(scope="module")
def prefix():
    return {
        "keys": normal(2, 200, 4, scale=0.7),
        "values": normal(2, 200, 4, seed=1),
        "queries": normal(2, 300, 4, seed=2, scale=0.7),
        "fresh": normal(2, 100, 4, seed=3, scale=0.7),
    }


@pytest.mark.parametrize("name", [name for name in MAPS if name != "taylor-1"])
def test_fitting_beats_equation_7_on_fresh_queries(name, prefix):
    features = make_map(name, 4, 2)
    fitted = PrefixState.fit(features, prefix["keys"], prefix["values"], prefix["queries"])
    summed = PrefixState.from_prefix(features, prefix["keys"], prefix["values"])
    against = prefix["fresh"], prefix["keys"], prefix["values"]
    assert fitted.error(*against).mean < summed.error(*against).mean


@pytest.mark.parametrize("name", MAPS)
def test_fitted_mass_is_positive_on_every_sample(name, prefix):
    fitted = PrefixState.fit(make_map(name, 4, 2), prefix["keys"], prefix["values"], prefix["queries"])
    mass = torch.linalg.vecdot(fitted.features(prefix["queries"]), fitted.k.unsqueeze(-2))
    assert (mass > 0).all()


def test_a_prefix_that_the_map_can_hold_is_found_exactly():
    """Five anchors with positive masses are a prefix of five tokens; least squares must find them again."""
    features = make_map("anchors", 4, 2)
    keys, values = features.keys.detach(), normal(2, 5, 4, seed=8)
    fitted = PrefixState.fit(features, keys, values, normal(2, 300, 4, seed=2), ridge=1e-12)
    torch.testing.assert_close(fitted.k.detach(), torch.ones(2, 5, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(fitted.Z.detach(), values, atol=1e-5, rtol=0)


def test_least_squares_minimises_the_weighted_residual(prefix):
    """Moving any entry of Z raises the error of the merged numerator, weighted as the docstring says."""
    Q, K, V = prefix["queries"], prefix["keys"], prefix["values"]
    token_lse = normal(2, 300, seed=5)
    ridge = 1e-6
    fitted = PrefixState.fit(Elu(4), K, V, Q, token_logsumexp=token_lse, ridge=ridge)
    out, lse = (part[0] for part in token_part(Q[None], K[None], V[None], Mask(), 0.5))
    weight = 1 / (lse.exp() + token_lse.exp())
    design = weight.unsqueeze(-1) * fitted.features(Q)
    scale = design.square().mean(dim=1, keepdim=True).mT
    target = (weight * lse.exp()).unsqueeze(-1) * out
    Z = fitted.Z.detach().requires_grad_()
    loss = (design @ Z - target).square().mean(dim=1).sum() + ridge * (scale * Z.square()).sum()
    (slope,) = torch.autograd.grad(loss, Z)
    assert slope.abs().max() < 1e-9


def test_tokens_beside_the_prefix_shift_the_weight_to_where_it_matters(prefix):
    """With tokens that swamp half of the queries, the fit is better on the other half than a plain fit."""
    Q, K, V = prefix["queries"], prefix["keys"], prefix["values"]
    swamped = torch.zeros(2, 300, dtype=torch.float64)
    swamped[:, :150] = 20.0
    swamped[:, 150:] = -20.0
    aware = PrefixState.fit(Elu(4), K, V, Q, token_logsumexp=swamped)
    plain = PrefixState.fit(Elu(4), K, V, Q)
    against = Q[:, 150:], K, V
    assert aware.error(*against).mean < plain.error(*against).mean


def test_signed_map_that_cannot_stay_positive_is_refused():
    keys, values = normal(1, 50, 2, scale=4), normal(1, 50, 2, seed=1)
    with pytest.raises(AttangentError, match="positive feature map"):
        PrefixState.fit(Taylor(2, 1), keys, values, normal(1, 200, 2, seed=2, scale=4))


@pytest.mark.parametrize("ridge", [0.0, -1.0])
def test_impossible_ridges_are_refused(ridge, prefix):
    with pytest.raises(AttangentError, match="ridge"):
        PrefixState.fit(Elu(4), prefix["keys"], prefix["values"], prefix["queries"], ridge=ridge)


def test_masses_of_other_queries_are_refused(prefix):
    with pytest.raises(AttangentError, match="token_logsumexp has shape"):
        PrefixState.fit(
            Elu(4), prefix["keys"], prefix["values"], prefix["queries"], token_logsumexp=torch.zeros(2, 7)
        )


def drawn(seed, n=60, r=6):
    draw = torch.Generator().manual_seed(seed)
    design = torch.rand(n, r, generator=draw, dtype=torch.float64)
    return design, design @ torch.randn(r, generator=draw, dtype=torch.float64)


@given(seed=st.integers(0, 100), ridge=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_the_free_solution_has_no_slope(seed, ridge):
    design, target = drawn(seed)
    x = ridge_solution(design, target.unsqueeze(1), ridge).squeeze(1)
    slope = design.mT @ (design @ x - target) / len(target) + ridge * x
    assert slope.abs().max() < 1e-9


@given(seed=st.integers(0, 100), ridge=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_the_non_negative_solution_has_no_way_down(seed, ridge):
    design, target = drawn(seed)
    x = non_negative_solution(design, target, ridge)
    slope = design.mT @ (design @ x - target) / len(target) + ridge * x
    assert (x >= 0).all()
    assert (slope > -1e-8).all()
    assert slope[x > 1e-9].abs().le(1e-8).all()


@given(seed=st.integers(0, 300), r=st.integers(1, 40))
def test_pivoting_finds_what_freeing_active_set_finds(seed, r):
    design, target = drawn(seed, n=50, r=r)
    gram = design.mT @ design / 50 + 1e-4 * torch.eye(r, dtype=torch.float64)
    right = design.mT @ target / 50
    found = _pivoted(gram, right)
    assert found is not None
    torch.testing.assert_close(found, _active_set(gram, right), atol=1e-8, rtol=1e-6)
