import copy

import pytest
import torch

import attangent
from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, ntk_attention, prefix_attention
from attangent.attention.features import Elu, Taylor
from tests.attention.cases import MAPS, make_map, make_state, normal, tokens


def test_public_names_lead_here():
    assert attangent.PrefixState is PrefixState
    assert attangent.ntk_attention is ntk_attention
    assert attangent.prefix_attention is attangent.attention.prefix_attention


@pytest.mark.parametrize("name", MAPS)
def test_from_prefix_is_equation_7(name):
    features = make_map(name, 4, 2)
    keys, values = normal(2, 9, 4), normal(2, 9, 3, seed=1)
    state = PrefixState.from_prefix(features, keys, values)
    Z, k = torch.zeros(2, features.size, 3, dtype=torch.float64), torch.zeros(2, features.size)
    for j in range(9):
        phi = features.encode(keys[:, j : j + 1]).detach()[:, 0]
        Z = Z + phi.unsqueeze(-1) * values[:, j].unsqueeze(1)
        k = k + phi
    torch.testing.assert_close(state.Z.detach(), Z)
    torch.testing.assert_close(state.k.detach(), k)


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_streaming_does_not_change_the_state(chunk):
    keys, values = normal(2, 9, 4), normal(2, 9, 3, seed=1)
    whole = PrefixState.from_prefix(Taylor(4, 2), keys, values)
    streamed = PrefixState.from_prefix(Taylor(4, 2), keys, values, chunk=chunk)
    torch.testing.assert_close(streamed.Z, whole.Z)
    torch.testing.assert_close(streamed.k, whole.k)


def test_chunks_may_come_from_a_generator():
    drawn = ((normal(1, 5, 4, seed=s), normal(1, 5, 4, seed=s + 50)) for s in range(3))
    state = PrefixState.from_chunks(Elu(4), drawn)
    keys = torch.cat([normal(1, 5, 4, seed=s) for s in range(3)], dim=1)
    values = torch.cat([normal(1, 5, 4, seed=s + 50) for s in range(3)], dim=1)
    torch.testing.assert_close(state.Z, PrefixState.from_prefix(Elu(4), keys, values).Z)
    with pytest.raises(AttangentError, match="no chunk"):
        PrefixState.from_chunks(Elu(4), [])


def test_one_head_may_leave_out_the_axis():
    keys, values = normal(9, 4), normal(9, 4, seed=1)
    assert PrefixState.from_prefix(Elu(4), keys, values).Z.shape == (1, 4, 4)


def test_masses_stay_positive_whatever_training_does_to_them():
    state = make_state("elu", 4, 2)
    with torch.no_grad():
        state.mass -= 100
    assert (state.k > 0).all()


def test_zero_masses_can_still_move():
    q, k, v = tokens(1, 2, 2, 3, 3, 4)
    state = PrefixState.zero(Elu(4), heads=2, dtype=torch.float64)
    (ntk_attention(q, k, v, state) - v).square().sum().backward()
    assert (state.mass.grad != 0).all()
    assert (state.Z_full.grad != 0).all()


def test_abs_as_in_the_authors_code_freezes_masses_at_zero():
    mass = torch.zeros(3, requires_grad=True)
    mass.abs().sum().backward()
    assert (mass.grad == 0).all()


def test_low_rank_state_starts_as_no_prefix_and_counts_its_numbers():
    d, rank = 16, 3
    q, k, v = tokens(1, 1, 1, 5, 5, d)
    state = PrefixState.low_rank(Elu(d), heads=1, rank=rank, seed=0, dtype=torch.float64)
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert state.number_of_floats == (2 * rank + 1) * d
    assert torch.equal(ntk_attention(q, k, v, state), plain)
    assert state.Z_A.std().item() == pytest.approx(1, abs=0.3)
    ntk_attention(q, k, v, state).square().sum().backward()
    assert (state.Z_B.grad != 0).any()


def test_full_state_counts_its_numbers():
    assert PrefixState.zero(Elu(16), heads=1).number_of_floats == 16 * 16 + 16


def test_states_are_modules_that_copy_and_move():
    state = make_state("anchors", 4, 2)
    twin = copy.deepcopy(state).float()
    assert {name for name, _ in state.named_parameters()} == {"features.keys", "Z_full", "mass"}
    assert twin.Z.dtype == torch.float32
    assert state.Z.dtype == torch.float64


@pytest.mark.parametrize(
    ("Z", "k", "message"),
    [
        (torch.zeros(2, 4, 4), torch.zeros(2, 5), r"Z is \(2, 4, 4\)"),
        (torch.zeros(2, 4), torch.zeros(2, 4), r"Z is \(2, 4\)"),
        (torch.zeros(2, 4, 4), torch.full((2, 4), torch.nan), "NaN"),
        (torch.zeros(2, 4, 4), torch.full((2, 4), -1.0), "none below 0"),
        ((torch.zeros(2, 4, 3), torch.zeros(2, 2, 4)), torch.zeros(2, 4), "x"),
        (torch.zeros(2, 4, 4, dtype=torch.long), torch.zeros(2, 4), "floating"),
    ],
)
def test_weights_that_do_not_fit_are_refused(Z, k, message):
    with pytest.raises(AttangentError, match=message):
        PrefixState(Elu(4), Z, k)


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [
        (torch.zeros(2, 9, 5), torch.zeros(2, 9, 4), "keys has shape"),
        (torch.zeros(2, 9, 4), torch.zeros(3, 9, 4), "values has shape"),
        (torch.zeros(2, 9, 4), torch.zeros(2, 8, 4), "9 keys and 8 values"),
        (torch.full((2, 9, 4), torch.inf), torch.zeros(2, 9, 4), "infinite"),
        ([1.0], torch.zeros(2, 8, 4), "keys is list"),
    ],
)
@pytest.mark.usefixtures("without_hook")
def test_prefixes_that_do_not_fit_are_refused(keys, values, message):
    with pytest.raises(AttangentError, match=message):
        PrefixState.from_prefix(Elu(4), keys, values)


def test_states_of_different_shapes_cannot_be_added():
    with pytest.raises(AttangentError, match="expected equal heads"):
        make_state("elu", 4, 2).add(make_state("elu", 4, 3))


@pytest.mark.parametrize("name", ["elu", "anchors"])
def test_masses_below_zero_are_reflected_in_every_path(name):
    """Output and gradients of a state whose masses training has made negative; also with gradients twice."""
    q, k, v = tokens(1, 2, 2, 3, 3, 4)
    state = make_state(name, 4, 2)
    with torch.no_grad():
        state.mass += 0.5
    upright = ntk_attention(q, k, v, state)
    (wanted,) = torch.autograd.grad(upright.square().sum(), state.mass)
    with torch.no_grad():
        state.mass.neg_()
    mirrored = ntk_attention(q, k, v, state)
    (found,) = torch.autograd.grad(mirrored.square().sum(), state.mass, create_graph=True)
    (plain,) = torch.autograd.grad(ntk_attention(q, k, v, state).square().sum(), state.mass)
    torch.testing.assert_close(mirrored, upright)
    torch.testing.assert_close(plain, -wanted)
    torch.testing.assert_close(found, -wanted)


def test_error_is_the_distance_of_the_two_attentions():
    state = make_state("elu", 4, 2)
    keys, values = normal(2, 20, 4, seed=1, scale=0.5).clamp(-1, 1), normal(2, 20, 4, seed=2).clamp(-1, 1)
    q, k, v = normal(2, 30, 4), normal(2, 6, 4, seed=7), normal(2, 6, 4, seed=8)
    found = state.error(q, keys, values, token_keys=k, token_values=v)
    batched = q[None], k[None], v[None]
    gap = (ntk_attention(*batched, state) - prefix_attention(*batched, keys, values)).abs()
    assert found.sup == pytest.approx(gap.max().item(), rel=1e-9)
    assert found.mean == pytest.approx(gap.mean().item(), rel=1e-9)


def test_without_tokens_the_prefix_is_all_there_is():
    state = make_state("taylor-3", 4, 2)
    keys, values = normal(2, 20, 4, seed=1, scale=0.5).clamp(-1, 1), normal(2, 20, 4, seed=2).clamp(-1, 1)
    q = normal(2, 30, 4, scale=0.3)
    phi = state.features(q)
    approximate = phi @ state.Z / torch.linalg.vecdot(phi, state.k.unsqueeze(-2)).unsqueeze(-1)
    exact = torch.softmax(q @ keys.mT / 2, dim=-1) @ values
    assert state.error(q, keys, values).sup == pytest.approx((approximate - exact).abs().max().item())


def test_half_given_tokens_are_refused():
    with pytest.raises(AttangentError, match="both or neither"):
        make_state("elu", 4, 2).error(
            normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4), token_keys=normal(2, 1, 4)
        )
