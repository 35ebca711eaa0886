"""The short way against the general one, and that nothing it keeps goes stale."""

import copy
import gc

import pytest
import torch

from attangent import AttangentError
from attangent.attention import PrefixState, ntk_attention
from attangent.attention.backends.cpu import quick
from attangent.attention.backends.cpu.prepare import trusted
from attangent.attention.backends.torch.portable import portable_attention
from attangent.attention.features import Calibrated, Elu, Printed
from attangent.attention.masks import Mask
from tests.attention.cases import make_map, normal

pytestmark = pytest.mark.skipif(trusted() is None, reason="there was no C compiler at installation")
MAPS = ["elu", "anchors", "anchors-damped", "learned-elu", "learned-damped"]


def state_of(name="elu", heads=2, dim=8, calibrated=False):
    features = make_map(name, dim, heads)
    if calibrated:
        units = normal(heads, dim, seed=1), normal(heads, seed=2).exp(), normal(heads, seed=3)
        features = Calibrated(features, *units)
    weights = normal(heads, features.size, dim, seed=4), normal(heads, features.size, seed=5).abs()
    return PrefixState(features, *weights).float()


def tokens(rows=5, columns=7, heads=4, kv_heads=2, dim=8, dtype=torch.float32):
    q = normal(2, rows, heads, dim, seed=6).transpose(
        1, 2
    )  # heads beside each other, as projections leave them
    return [t.to(dtype) for t in (q, *(normal(2, kv_heads, columns, dim, seed=s) for s in (7, 8)))]


def quickly(q, k, v, state, causal=False, scale=None):
    with torch.no_grad():
        found = quick.quick_attention(q, k, v, state, causal, scale)
    assert found is not None
    return found


def exactly(q, k, v, state, causal=False, scale=None):
    q, k, v = (t.double() for t in (q, k, v))
    with torch.no_grad():
        scale = 8**-0.5 if scale is None else scale
        return portable_attention(q, k, v, copy.deepcopy(state).double(), Mask(causal=causal), scale).float()


@pytest.mark.parametrize(
    ("name", "calibrated"), [*((name, False) for name in MAPS), *((name, True) for name in MAPS[1:])]
)
def test_it_gives_what_the_formula_gives(name, calibrated):
    given, state = tokens(), state_of(name, calibrated=calibrated)
    for _ in range(2):  # with a plan made, and with one that is there
        torch.testing.assert_close(quickly(*given, state), exactly(*given, state), rtol=1e-4, atol=1e-5)


def test_other_tokens_make_another_plan():
    state = state_of()
    for rows, columns, causal, scale in ((5, 7, False, None), (7, 7, True, 0.5), (1, 3, True, None)):
        given = tokens(rows, columns)
        expected = exactly(*given, state, causal and rows > 1, scale)
        found = quickly(*given, state, causal, scale)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    lower = tokens(dtype=torch.bfloat16)
    torch.testing.assert_close(quickly(*lower, state).float(), exactly(*lower, state), rtol=0.02, atol=0.02)


def test_weights_may_be_written_to_replaced_and_moved():
    given, state = tokens(), state_of()
    changes = [
        lambda: state.Z_full.data.mul_(2),
        lambda: setattr(state, "mass", torch.nn.Parameter(3 * state.mass.detach())),
        lambda: setattr(state.Z_full, "data", state.Z_full.detach().clone().neg_()),
        lambda: setattr(state.Z_full, "data", state.Z_full.detach().mT.contiguous().mT),  # other strides
        lambda: setattr(state, "features", Printed(8)),
    ]
    before = quickly(*given, state)
    for change in changes:
        with torch.no_grad():
            change()
            found = ntk_attention(*given, state)
        torch.testing.assert_close(found, exactly(*given, state), rtol=1e-4, atol=1e-5)
        assert change is changes[3] or not torch.equal(found, before)
        before = found


def test_the_maps_own_weights_may_change():
    given, state = tokens(), state_of("learned-elu")
    first = quickly(*given, state)
    with torch.no_grad():
        state.features.weight.mul_(-1)
    found = quickly(*given, state)
    assert not torch.allclose(found, first)
    torch.testing.assert_close(found, exactly(*given, state), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        {"q": lambda q: q.double(), "k": lambda k: k.double(), "v": lambda v: v.double()},
        {"q": lambda q: q.mT.contiguous().mT},
        {"v": lambda v: torch.cat([v, v], dim=-1)},
        {"k": lambda k: k[:, :, :0], "v": lambda v: v[:, :, :0]},
    ],
)
def test_what_it_cannot_do_is_left_to_the_general_path(given):
    q, k, v = (given.get(name, lambda t: t)(t) for name, t in zip("qkv", tokens(), strict=True))
    Z = normal(2, 8, v.shape[-1], seed=4)
    with torch.no_grad():
        state = PrefixState(Elu(8), Z, normal(2, 8, seed=5).abs()).float()
        assert quick.quick_attention(q, k, v, state, False, None) is None
        assert ntk_attention(q, k, v, state).shape == (*q.shape[:3], v.shape[-1])


@pytest.mark.parametrize("name", MAPS)
def test_gradients_of_a_planned_call_are_those_of_the_formula(name):
    state = state_of(name, dim=16)
    q, k, v = (t.requires_grad_() for t in tokens(rows=9, columns=9, dim=16))
    exact = [t.detach().double().requires_grad_() for t in (q, k, v)]
    double = copy.deepcopy(state).double()
    out = portable_attention(*exact, double, Mask(causal=True), 0.25)
    want = torch.autograd.grad(out.square().sum(), [*exact, *double.parameters()])
    for _ in range(2):  # with a new plan, and with a known one
        out = quick.quick_attention(q, k, v, state, True, None)
        have = torch.autograd.grad(out.square().sum(), [q, k, v, *state.parameters()])
        for mine, expected in zip(have, want, strict=True):
            bound = 2e-4 * max(1.0, expected.abs().max().item())
            torch.testing.assert_close(mine.double(), expected, rtol=2e-4, atol=bound)


def step(q, k, v, state):
    out = quick.quick_attention(q, k, v, state, False, None)
    return torch.autograd.grad(out.square().sum(), [q, k, v, *state.parameters()])


def test_saved_tensors_may_come_back_in_another_layout():
    state = state_of(dim=16)
    inputs = [t.requires_grad_() for t in tokens(rows=9, columns=9, dim=16)]
    expected = step(*inputs, state)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.contiguous()):
        dense = step(*inputs, state)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.mT.contiguous().mT):
        columns_first = step(*inputs, state)
    for want, *others in zip(expected, dense, columns_first, step(*inputs, state), strict=True):
        for each in others:
            torch.testing.assert_close(each, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("heads", "kv_heads", "state_heads"), [(4, 4, 4), (4, 4, 2), (4, 2, 4), (6, 3, 3)])
def test_gradients_on_two_threads_are_those_on_one(heads, kv_heads, state_heads):
    state = state_of(heads=state_heads, dim=16)
    inputs = [t.requires_grad_() for t in tokens(70, 70, heads, kv_heads, dim=16)]
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(step(*inputs, state))
    finally:
        torch.set_num_threads(before)
    for want, have in zip(*results, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)


def test_only_wanted_gradients_of_a_planned_call_are_returned():
    state = state_of(dim=16)
    q, k, v = tokens(rows=9, columns=9, dim=16)
    q.requires_grad_()
    wanted = step(q, k.requires_grad_(), v.requires_grad_(), state)
    for frozen in (k, v, *state.parameters()):
        frozen.requires_grad_(False)
    out = quick.quick_attention(q, k, v, state, False, None)
    out.square().sum().backward()
    torch.testing.assert_close(q.grad, wanted[0])
    assert k.grad is None
    assert state.mass.grad is None


def test_transforms_and_autocast_go_the_general_way():
    (q, k, v), state = tokens(), state_of()
    with torch.no_grad():
        expected = ntk_attention(q, k, v, state)
        mapped = torch.vmap(lambda q: ntk_attention(q[None], k[:1], v[:1], state)[0])(q)
        torch.testing.assert_close(mapped[0], expected[0], rtol=1e-4, atol=1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            assert ntk_attention(q, k, v, state).dtype == torch.bfloat16


def test_what_does_not_fit_is_refused_as_ever():
    (q, k, v), state = tokens(), state_of()
    with torch.no_grad():
        ntk_attention(q, k, v, state)
        for wrong in ((q[..., :4], k, v), (q, k[:1], v), (q, k, v[:, :, :3])):
            with pytest.raises(AttangentError):
                ntk_attention(*wrong, state)
        with pytest.raises(AttangentError, match="scale is nan"):
            ntk_attention(q, k, v, state, scale=float("nan"))


def test_a_plan_lives_as_long_as_its_state():
    state = state_of()
    quickly(*tokens(), state)
    assert state in quick._plans
    count = len(quick._plans)
    del state
    gc.collect()
    assert len(quick._plans) < count
