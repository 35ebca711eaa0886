"""Compiled passes against the same by plain operations in float64."""

import runpy
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.attention import PrefixState
from attangent.attention.backends.cpu import library
from attangent.attention.backends.cpu.prepare import prepare, trusted
from attangent.attention.backends.torch.portable import portable_attention
from attangent.attention.backends.torch.prefix_side import TorchPrefix
from attangent.attention.backends.torch.tokens import GradientRows, KeyValues
from attangent.attention.features import Calibrated
from attangent.attention.masks import Mask, resolve_mask
from attangent.attention.prefix import query_gain
from tests.attention.cases import make_map, normal

pytestmark = pytest.mark.skipif(trusted() is None, reason="there was no C compiler at installation")
MAPS = ["elu", "anchors", "anchors-damped", "learned-elu", "learned-gelu", "learned-damped"]
# batch, query heads for each head of the prefix, heads of the prefix, rows, size of a head
sizes = st.tuples(*(st.integers(1, most) for most in (3, 3, 3, 70)), st.integers(2, 37))


def state_of(name, heads, dim, calibrated=False):
    features = make_map(name, dim, heads)
    if calibrated:
        units = normal(heads, dim, seed=1), normal(heads, seed=2).exp(), normal(heads, seed=3)
        features = Calibrated(features, *units)
    Z, mass = normal(heads, features.size, dim, seed=4), normal(heads, features.size, seed=5)
    if not features.positive:  # far from masses that cancel each other, some of either sign
        mass = 0.01 * mass
        mass[:, 0] += torch.where(torch.arange(heads) % 2 == 1, -20, 20)
    return PrefixState(features, Z, mass.abs() if features.positive else mass)


def rows_of(batch, heads, length, dim, seed, dtype=torch.float32):
    """With heads beside each other, as projections leave them."""
    return normal(batch, length, heads, dim, seed=seed).to(dtype).transpose(1, 2)


def both_passes(state, q, out, lse, grad, scale, compiled):
    """out, log |mass|, sign, then the gradients of q, Z, |mass| and of the map."""
    (Z, mass), cap, out = state.weights(), 60.0, out.clone()
    grad_q = torch.zeros_like(q)
    if compiled:
        prefix = prepare(state.features, Z, mass, query_gain(scale, q.shape[-1]), cap)
    else:
        prefix = TorchPrefix.of(state.features, Z, mass, scale, cap)
    total, sign = prefix.forward(q, out, lse, for_backward=True)
    grads = prefix.backward(GradientRows(q, out, total, sign, grad, grad_q))
    return [out, total, sign, grad_q, *grads]


def assert_same(have, want, rtol):
    for mine, exact in zip(have, want, strict=True):
        if exact is None:
            assert mine is None
            continue
        assert mine.shape == exact.shape
        torch.testing.assert_close(
            mine.double(), exact, rtol=rtol, atol=rtol * max(1.0, exact.abs().max().item())
        )


@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=12)
@given(size=sizes, scale=st.sampled_from([0.1, 1.0]), calibrated=st.booleans())
def test_both_passes(name, size, scale, calibrated):
    batch, sharing, heads, length, dim = size
    state = state_of(name, heads, dim, calibrated and name != "elu")
    q, out, grad = (rows_of(batch, sharing * heads, length, dim, seed) for seed in (6, 7, 8))
    lse = normal(batch, sharing * heads, length, seed=9)
    with torch.no_grad():
        want = both_passes(state, q.double(), out.double(), lse, grad.double(), scale, False)
        have = both_passes(state.float(), q, out, lse.float(), grad, scale, True)
    assert_same(have, want, 2e-4)


@pytest.mark.parametrize("name", MAPS)
def test_bfloat16(name):
    state = state_of(name, 2, 16).float()
    q, out, grad = (rows_of(2, 4, 50, 16, seed, torch.bfloat16) for seed in (6, 7, 8))
    lse = 3 + normal(2, 4, 50, seed=9).float()
    with torch.no_grad():
        have = both_passes(state, q, out, lse, grad, 0.25, True)
        want = both_passes(state.double(), q.double(), out.double(), lse.double(), grad.double(), 0.25, False)
    assert have[0].dtype == have[3].dtype == torch.bfloat16
    assert_same(have, want, 2e-2)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_and_parts_change_nothing_but_the_last_digits(name, threads, monkeypatch):
    state = state_of(name, 1, 8).float()
    q, out, grad = (rows_of(2, 3, 100, 8, seed) for seed in (6, 7, 8))
    lse = 3 + normal(2, 3, 100, seed=9).float()
    with torch.no_grad():
        alone = both_passes(state, q, out, lse, grad, 1.0, True)
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        several = both_passes(state, q, out, lse, grad, 1.0, True)
    assert_same(several, [None if part is None else part.double() for part in alone], 1e-5)


@pytest.mark.parametrize("name", ["elu", "anchors", "learned-gelu"])
@pytest.mark.parametrize("lse", [-torch.inf, -3e38, -100.0, 88.0, 1e4])
def test_tokens_that_weigh_nothing_or_everything(name, lse):
    state = state_of(name, 2, 8)
    q, out, grad = (rows_of(1, 2, 5, 8, seed) for seed in (6, 7, 8))
    lse = torch.full((1, 2, 5), lse, dtype=torch.float64)
    with torch.no_grad():
        want = both_passes(state, q.double(), out.double(), lse, grad.double(), 1.0, False)
        have = both_passes(state.float(), q, out, lse.float(), grad, 1.0, True)
    assert all(part is None or torch.isfinite(part).all() for part in have)
    assert_same(have[:1], want[:1], 1e-4)


@pytest.mark.parametrize("name", ["elu", "anchors", "learned-gelu"])
def test_a_prefix_without_mass_changes_nothing(name):
    state = PrefixState.zero(make_map(name, 8, 2), heads=2).float()
    q, out, grad = (rows_of(1, 2, 5, 8, seed) for seed in (6, 7, 8))
    lse = torch.zeros(1, 2, 5)
    lse[0, 0, 0] = -torch.inf
    with torch.no_grad():
        have = both_passes(state, q, out, lse, grad, 1.0, True)
    assert torch.equal(have[0][0, 1], out[0, 1])
    assert torch.equal(have[0][0, 0, 1:], out[0, 0, 1:])
    assert all(part is None or torch.isfinite(part).all() for part in have)


def test_queries_are_left_alone_where_their_gradient_is_not_wanted():
    state = state_of("learned-gelu", 2, 8).float()
    q, out, grad = (rows_of(1, 2, 5, 8, seed) for seed in (6, 7, 8))
    prefix = prepare(state.features, *state.weights(), 1.0, 60.0)
    with torch.no_grad():
        total, sign = prefix.forward(q, out, torch.zeros(1, 2, 5), for_backward=True)
        with_q = prefix.backward(GradientRows(q, out, total, sign, grad, torch.zeros_like(q)))
        without = prefix.backward(GradientRows(q, out, total, sign, grad, None))
    assert all(map(torch.equal, with_q, without))


attends = pytest.mark.skipif(
    trusted() is not None and not trusted().takes_tokens, reason="this processor leaves tokens to torch"
)


EVERYTHING = Mask()


def attended(state, q, k, v, mask=EVERYTHING, scale=0.3):
    prefix = prepare(state.features, *state.weights(), query_gain(scale, q.shape[-1]), 60.0)
    with torch.no_grad():
        return prefix.attend(q, KeyValues(k, v, mask, scale), for_backward=True)


def exactly(state, q, k, v, mask=EVERYTHING, scale=0.3):
    with torch.no_grad():
        given = (tensor.double() for tensor in (q, k, v))
        mask = mask if mask.bias is None else mask._replace(bias=mask.bias.double())
        return portable_attention(*given, state.double(), mask, scale)


def mask_of(kind, q, k):
    """Of queries that all see a key: the last one."""
    draw = torch.Generator().manual_seed(3)
    if kind == "added":
        return resolve_mask(torch.randn(1, q.shape[1], q.shape[2], k.shape[2], generator=draw), False, q, k)
    if kind in ("seen", "padding"):
        rows = q.shape[2] if kind == "seen" else 1
        seen = torch.rand(q.shape[0], 1, rows, k.shape[2], generator=draw) < 0.4
        if kind == "padding":
            seen[..., : 2 * k.shape[2] // 3] = False  # more than a block of keys in front that nobody sees
        seen[..., -1] = True
        return resolve_mask(seen, False, q, k)
    return resolve_mask(None, kind == "causal", q, k)


def tokens_of(batch, heads, sharing, rows, keys, dim, size=1.0):
    q = size * rows_of(batch, heads * sharing, rows, dim, 6).float()
    return q, *(rows_of(batch, heads, keys, dim, seed).float() for seed in (7, 8))


@attends
@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=12)
@given(
    size=st.tuples(*(st.integers(1, most) for most in (2, 2, 3, 150, 300))),
    dim=st.sampled_from([16, 32, 48, 96]),
    kind=st.sampled_from(["none", "causal", "added", "seen", "padding"]),
)
def test_tokens_and_prefix_in_one_call(name, size, dim, kind):
    batch, heads, sharing, rows, keys = size
    q, k, v = tokens_of(batch, heads, sharing, rows, rows if kind == "causal" else keys, dim)
    state, mask = state_of(name, heads, dim), mask_of(kind, q, k)
    want = exactly(state, q, k, v, mask)
    out, _, _ = attended(state.float(), q, k, v, mask)
    # features of both signs may nearly cancel in the denominator: such rows are large, and their rounding
    # grows with the square of their size
    size_of_row = want.abs().amax(dim=-1, keepdim=True)
    assert ((out.double() - want).abs() <= 2e-5 * (1 + size_of_row) + 5e-7 * size_of_row.square()).all()


def differentiated(state, q, k, v, mask, grad):
    """The gradients of q, k, v, Z and mass by compiled code; of the map's weights too, if it has any."""
    prefix = prepare(state.features, *state.weights(), query_gain(0.3, q.shape[-1]), 60.0)
    with torch.no_grad():
        tokens = KeyValues(k, v, mask, 0.3)
        out, total, sign = prefix.attend(q, tokens, for_backward=True)
        grad_q = torch.empty_like(q)
        rows = GradientRows(q, out, total, sign, grad, grad_q)
        return [grad_q, *prefix.backward(rows, tokens)]


@attends
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.bfloat16, 2e-2)])
@settings(max_examples=20)
@given(
    name=st.sampled_from(["elu", "anchors", "learned-gelu"]),
    size=st.tuples(*(st.integers(1, most) for most in (2, 2, 3, 150, 300))),
    dim=st.sampled_from([16, 48, 64]),
    kind=st.sampled_from(["none", "causal", "added", "seen", "padding"]),
)
def test_gradients_of_tokens_and_prefix_in_one_call(name, size, dim, kind, dtype, bound):
    batch, heads, sharing, rows, keys = size
    q, k, v = (
        t.to(dtype) for t in tokens_of(batch, heads, sharing, rows, rows if kind == "causal" else keys, dim)
    )
    state = state_of(name, heads, dim)
    grad = rows_of(batch, heads * sharing, rows, dim, 9).to(dtype)
    mask = mask_of(kind, q, k)
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    bias = mask if mask.bias is None else mask._replace(bias=mask.bias.double())
    want = torch.autograd.grad(
        portable_attention(*exact, state, bias, 0.3), [*exact, state.Z_full, state.mass], grad.double()
    )
    have = differentiated(state.float(), q, k, v, mask, grad)[:5]
    shapes = zip(have, [each.squeeze(0) if each.ndim > 4 else each for each in want], strict=True)
    for mine, expected in shapes:
        size_of_all = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(mine.double(), expected, rtol=bound, atol=bound * size_of_all)


@attends
def test_the_mass_of_tokens_and_prefix_is_told():
    q, k, v = tokens_of(1, 2, 1, 40, 150, 32)
    state = state_of("elu", 2, 32)
    tokens = torch.logsumexp(0.3 * q.double() @ k.double().mT, dim=-1)
    phi = state.features(q.double() * query_gain(0.3, 32))
    want = torch.logaddexp(tokens, torch.log(phi @ state.k.unsqueeze(-1)).squeeze(-1))
    _, total, sign = attended(state.float(), q, k, v)
    assert sign is None
    torch.testing.assert_close(total.double(), want, rtol=1e-5, atol=1e-5)


@attends
@pytest.mark.parametrize("kind", ["none", "causal", "added", "padding"])
@pytest.mark.parametrize(("rows", "keys", "dim"), [(70, 133, 48), (9, 9, 15), (64, 256, 64)])
def test_tokens_in_bfloat16(kind, rows, keys, dim):
    """Pairs of bfloats, odd heads, and blocks that no vector fills."""
    q, k, v = tokens_of(2, 2, 2, rows, rows if kind == "causal" else keys, dim)
    v = rows_of(2, 2, k.shape[2], 16, 8).float()
    q, k, v = (t.bfloat16() for t in (q, k, v))
    features = make_map("elu", dim, 2)
    state = PrefixState(features, normal(2, dim, 16, seed=4), normal(2, dim, seed=5).abs())
    mask = mask_of(kind, q, k)
    want = exactly(state, q, k, v, mask)
    out, total, _ = attended(state.float(), q, k, v, mask)
    assert out.dtype == torch.bfloat16
    assert total.dtype == torch.float32
    torch.testing.assert_close(out.double(), want, rtol=1e-2, atol=1e-2)


@attends
@pytest.mark.parametrize("size", [0.0, 30.0, 1e4])
@pytest.mark.parametrize("kind", ["none", "causal", "added"])
def test_scores_of_any_size(size, kind):
    q, k, v = tokens_of(1, 1, 1, 200, 200, 16, size)
    state = state_of("elu", 1, 16)
    mask = mask_of(kind, q, k)
    want = exactly(state, q, k, v, mask, 1.0)
    out, _, _ = attended(state.float(), q, k, v, mask, 1.0)
    torch.testing.assert_close(out.double(), want, rtol=2e-3 if size > 100 else 1e-4, atol=1e-3)


@attends
@pytest.mark.parametrize("hidden", [-torch.inf, torch.finfo(torch.float32).min])
def test_a_query_that_sees_no_token_disturbs_no_other(hidden):
    q, k, v = tokens_of(1, 1, 1, 20, 150, 16)
    state = state_of("elu", 1, 16)
    added = torch.zeros(1, 1, 20, 150)
    added[:, :, 4] = hidden
    mask = resolve_mask(added, False, q, k)
    want = exactly(state, q, k, v, mask)
    out, _, _ = attended(state.float(), q, k, v, mask)
    torch.testing.assert_close(out.double(), want, rtol=1e-4, atol=1e-5)


@attends
def test_what_is_no_number_is_not_hidden():
    q, k, v = tokens_of(1, 1, 1, 20, 20, 16)
    state = state_of("elu", 1, 16).float()
    q[0, 0, 3, 2] = torch.nan
    out, _, _ = attended(state, q, k, v)
    assert out[0, 0, 3].isnan().all()
    assert out[0, 0, [*range(3), *range(4, 20)]].isfinite().all()
    k[0, 0, 5, 1] = torch.nan
    out, _, _ = attended(state, q, k, v, Mask(causal=True))
    assert out[0, 0, 5:].isnan().all()
    assert out[0, 0, :3].isfinite().all()


@attends
def test_threads_and_neighbours_change_no_bit_of_the_output(monkeypatch):
    q, k, v = tokens_of(2, 1, 3, 100, 100, 16)
    state = state_of("anchors", 1, 16).float()
    alone, _, _ = attended(state, q, k, v, Mask(causal=True))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    several, _, _ = attended(state, q, k, v, Mask(causal=True))
    assert torch.equal(alone, several)
    monkeypatch.undo()
    some, _, _ = attended(state, q[:, :, 7:50], k, v)
    assert torch.equal(some, attended(state, q, k, v)[0][:, :, 7:50])


@attends
def test_tokens_behind_a_prefix_that_is_nothing_are_left_to_torch():
    q, k, v = tokens_of(1, 2, 1, 20, 20, 16)
    zero = PrefixState.zero(make_map("elu", 16, 2), heads=2).float()
    assert attended(zero, q, k, v) is None
    with torch.no_grad():
        zero.Z_full[1, -1, -1] = 1e-30
    assert attended(zero, q, k, v) is not None


ROOT = Path(__file__).parents[4]
BUILD = runpy.run_path(str(ROOT / "hatch_build.py"))
[PIECES] = [pieces for name, pieces in BUILD["libraries"](ROOT).items() if name.endswith("attention.lib")]
compiled = pytest.mark.skipif(library.load() is None, reason="there was no C compiler at installation")


@pytest.mark.parametrize("left", ["nothing", "text", pytest.param("older", marks=compiled)])
def test_without_a_library_of_this_version_there_is_none(left, tmp_path, monkeypatch):
    path = tmp_path / "attention.lib"
    if left == "text":
        path.write_text("no library")
    if left == "older":
        (tmp_path / "older.c").write_text("int attention_version(void) { return 0; }")
        assert not BUILD["compile_library"]([BUILD["Piece"](tmp_path / "older.c")], path)
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert library.load.__wrapped__() is None


@compiled
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: f"{piece.source.name} {' '.join(piece.flags)}")
def test_the_sources_have_no_warnings(piece):
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-psabi", "-fsyntax-only", *piece.flags]
    done = subprocess.run(["cc", *options, piece.source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@compiled
@pytest.mark.parametrize("kind", ["plain", "with fused multiplication"])
def test_every_kind_of_processor_gets_the_same_numbers(kind, tmp_path, monkeypatch):
    """Code that this one cannot run is not taken."""
    from attangent.attention.backends.cpu.prepare import is_right

    piece = BUILD["Piece"]
    rows, choose = PIECES[0].source, PIECES[-1].source
    pieces = [piece(rows, ["-O1"]), piece(choose)]
    if kind != "plain":
        if len(PIECES) == 2:
            pytest.skip("there is one kind of processor of this make")
        pieces = [piece(rows, ["-O1"]), piece(rows, [*PIECES[1].flags, "-O1"]), piece(choose, ["-DKINDS=1"])]
    assert not BUILD["compile_library"](pieces, tmp_path / "attention.lib")
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert is_right(library.load.__wrapped__())
