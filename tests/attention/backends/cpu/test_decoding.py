"""Compiled merging against the same in torch, in float64."""

import ctypes
import math
import runpy
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.attention.backends.cpu import decoding
from attangent.attention.backends.cpu.decoding import MergeRows, merge_anchors, merge_elu, merge_learned
from tests.attention.cases import normal

ROOT = Path(__file__).parents[4]
BUILD = runpy.run_path(str(ROOT / "hatch_build.py"))
compiled = pytest.mark.skipif(decoding.library() is None, reason="decoding.c is not compiled")
sizes = st.tuples(*(st.integers(1, most) for most in (3, 4, 37, 35, 37)))


def compiled_from(source, library):
    return BUILD["compile_library"]([BUILD["Piece"](source)], library)


def drawn(*shape, seed=0, scale=1.0):
    return scale * normal(*shape, seed=seed, dtype=torch.float32)


def blended(out, lse, u, level):
    return torch.lerp(out.double(), u, (level - lse.double().unsqueeze(-1)).sigmoid())


def learned_weights(heads, dim, features, values, scale=1.0):
    shapes = (heads, dim, features), (heads, 1, features), (heads, 1, values), (heads, features, values)
    weights = [drawn(*shape, seed=i, scale=scale) for i, shape in enumerate(shapes)]
    return *weights, drawn(1, heads, 1, 1, seed=9)


def learned(out, lse, q, columns, bias, first, rest, level):
    t = (bias + q.double() @ columns.double()).double()
    return blended(out, lse, first.double() + (t + t * t.erf()) @ rest.double(), level.double())


def anchors(out, lse, q, columns, bias, U):
    t = bias.double() + q.double() @ columns.double()
    return blended(out, lse, t.softmax(-1) @ U.double(), t.logsumexp(-1, keepdim=True))


def elu(out, lse, q, Z, masses, factor):
    phi = torch.nn.functional.elu(factor * q.double()) + 1
    mass = phi @ masses.double().unsqueeze(-1)
    return blended(out, lse, phi @ Z.double() / mass, mass.log())


def queries(batch, heads, dim, values):
    """With heads that lie as a projection leaves them, q, out and lse."""
    q, out = (drawn(batch, 1, heads, size, seed=5).transpose(1, 2) for size in (dim, values))
    return q, out, drawn(batch, heads, 1, seed=6)


@compiled
@given(size=sizes, factor=st.sampled_from([0.01, 1.0, 10.0]))
def test_elu(size, factor):
    batch, heads, dim, _, values = size
    Z, masses = drawn(heads, dim, values), drawn(heads, dim, seed=1).abs()
    q, out, lse = queries(batch, heads, dim, values)
    expected = elu(out, lse, q, Z, masses, factor)
    assert merge_elu(Z, masses, factor, heads)(out, lse, q)
    assert torch.allclose(out.double(), expected, rtol=1e-4, atol=1e-5)


@compiled
@given(size=sizes, scale=st.sampled_from([0.01, 1.0, 10.0]))
def test_learned_features(size, scale):
    batch, heads, dim, features, values = size
    q, out, lse = queries(batch, heads, dim, values)
    weights = learned_weights(heads, dim, features, values, scale)
    expected, found = learned(out, lse, q, *weights), out.clone()
    assert merge_learned(*weights)(found, lse, q)
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-5 * (1 + expected.abs().max().item()))


@compiled
@given(size=sizes, scale=st.sampled_from([0.01, 1.0, 10.0]))
def test_anchors(size, scale):
    batch, heads, dim, features, values = size
    q, out, lse = queries(batch, heads, dim, values)
    columns, bias = drawn(heads, dim, features, scale=scale), drawn(heads, 1, features, seed=1)
    bias[:, :, 1::2] = -math.inf
    U = drawn(heads, features, values, seed=2)
    expected, found = anchors(out, lse, q, columns, bias, U), out.clone()
    assert merge_anchors(columns, bias, U)(found, lse, q)
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=2e-5)


@compiled
@given(
    features=st.lists(st.integers(1, 600), min_size=1, max_size=3),
    sharing=st.integers(1, 3),
    scale=st.sampled_from([0.1, 3.0]),
)
def test_heads_of_any_length(features, sharing, scale):
    """The highest score may lie in any of the pieces that a long head is cut into."""
    heads = len(features) * sharing
    q, out, lse = queries(2, heads, 5, 3)
    columns = [drawn(5, r, seed=r, scale=scale) for r in features]
    bias, U = [drawn(1, r, seed=r + 1) for r in features], [drawn(r, 3, seed=r + 2) for r in features]
    for each in bias:
        each[:, 1::2] = -math.inf
        if each.shape[1] > 300:
            each[:, :300] = -math.inf
    found = out.clone()
    assert merge_anchors(columns, bias, U, heads)(found, lse, q)
    for head in range(heads):
        own, at = head // sharing, slice(head, head + 1)
        alone = (columns[own][None], bias[own][None], U[own][None])
        expected = anchors(out[:, at], lse[:, at], q[:, at], *alone)
        assert torch.allclose(found[:, at].double(), expected, rtol=1e-4, atol=2e-5)


@compiled
def test_every_sequence_may_have_its_own_prefix():
    q, out, lse = queries(5, 2, 4, 3)
    one = merge_learned(*learned_weights(2, 4, 3, 3))
    two = merge_anchors([drawn(4, 9)], [drawn(1, 9)], [drawn(9, 3)], 2)
    merges, found = [one, None, two, two, one], out.clone()
    assert MergeRows(merges)(found, lse, q)
    for row, merge in enumerate(merges):
        at, alone = slice(row, row + 1), out[row : row + 1].clone()
        if merge is not None:
            assert merge(alone, lse[at].contiguous(), q[at].contiguous())
        assert torch.equal(found[at], alone)
    assert not MergeRows(merges[:4])(found, lse, q)
    assert not MergeRows([None] * 5)(found, lse, q)


@compiled
@given(size=sizes)
def test_bfloat16_is_rounded_once(size):
    batch, heads, dim, features, values = size
    q, out, lse = (part.bfloat16() for part in queries(batch, heads, dim, values))
    weights, found, wide = learned_weights(heads, dim, features, values), out.clone(), out.float()
    lse = lse.float()
    assert merge_learned(*weights)(found, lse, q)
    assert merge_learned(*weights)(wide, lse, q.float())
    assert torch.equal(found, wide.bfloat16())
    anchored = weights[0], weights[1], weights[3]
    assert merge_anchors(*anchored)(found, lse, q)
    assert torch.allclose(found.double(), anchors(wide.bfloat16(), lse, q, *anchored), rtol=2**-7, atol=1e-4)


@compiled
@given(y=st.floats(-60, 60, width=32))
def test_its_gelu(y):
    columns, rest = torch.ones(1, 1, 1), torch.ones(1, 1, 1)
    nothing, surely = torch.zeros(1, 1, 1), torch.full((1, 1, 1, 1), 100.0)
    q, found = torch.full((1, 1, 1, 1), y), torch.zeros(1, 1, 1, 1)
    assert merge_learned(columns, nothing, nothing, rest, surely)(found, torch.zeros(1, 1, 1), q)
    t = torch.tensor(y, dtype=torch.float64)
    assert found.item() == pytest.approx((t + t * t.erf()).item(), rel=1e-6, abs=5e-7 * abs(y))


@compiled
@pytest.mark.parametrize("lse", [-200.0, 200.0])
def test_a_prefix_or_tokens_that_have_all_the_mass(lse):
    q, out, _ = queries(1, 2, 4, 5)
    weights, found = learned_weights(2, 4, 3, 5), out.clone()
    given_lse = torch.full((1, 2, 1), lse)
    assert merge_learned(*weights)(found, given_lse, q)
    assert torch.allclose(found.double(), learned(out, given_lse, q, *weights), atol=1e-5)
    assert torch.equal(found, out) == (lse > 0)


@compiled
def test_a_query_that_is_no_number_gives_none():
    q, out, lse = queries(1, 2, 4, 5)
    q[:, 1] = math.nan
    for merge in (
        merge_learned(*learned_weights(2, 4, 3, 5)),
        merge_anchors(drawn(2, 4, 3), drawn(2, 1, 3), drawn(2, 3, 5)),
    ):
        found = out.clone()
        assert merge(found, lse, q)
        assert found[:, 0].isfinite().all()
        assert found[:, 1].isnan().all()


@compiled
def test_what_it_leaves_to_torch():
    merge, (q, out, lse) = merge_learned(*learned_weights(2, 4, 3, 5)), queries(3, 2, 4, 5)
    before = out.clone()
    assert not merge(out.repeat(1, 1, 2, 1), lse, q.repeat(1, 1, 2, 1))
    assert not merge(out, lse, q.double())
    assert not merge(out, lse, q.bfloat16())
    assert not merge(out.half(), lse, q.half())
    assert not merge(out, lse, drawn(3, 2, 1, 8)[..., ::2])
    assert not merge(drawn(3, 2, 1, 10)[..., ::2], lse, q)
    for heads in (1, 3, 4):
        other = queries(3, heads, 4, 5)
        assert not merge(other[1], other[2], other[0])
    assert not merge(out, lse.double(), q)
    assert not merge(out, lse.bfloat16(), q)
    assert not merge(out, lse[:2], q)
    assert not merge(out[..., :4].contiguous(), lse, q)
    assert not merge(out, lse, drawn(3, 2, 1, 3))
    many = 1 + 1_000_000 // (2 * 16 * (4 + 16))
    assert not merge(*(part[:1].repeat(many, *[1] * (part.ndim - 1)) for part in (out, lse, q)))
    assert torch.equal(out, before)


@compiled
def test_weights_it_does_not_take():
    assert merge_learned(*(part.double() for part in learned_weights(2, 4, 3, 5))) is None
    assert merge_learned(*learned_weights(1, 1025, 3, 5)) is None
    assert merge_learned(*learned_weights(1, 4, 3, 1025)) is None
    assert merge_learned(*learned_weights(1, 1024, 1025, 1024)) is not None
    assert merge_learned(*learned_weights(0, 4, 3, 5)) is None
    assert merge_learned(*learned_weights(2, 4, 3, 5), heads=3) is None
    assert merge_anchors([], [], []) is None


def test_without_a_library_torch_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "__file__", str(tmp_path / "decoding.py"))
    assert decoding.library.__wrapped__() is None


@compiled
def test_a_library_that_gives_wrong_numbers_is_left_alone_with_a_warning(tmp_path, monkeypatch):
    source = (ROOT / "src/attangent/attention/backends/cpu/decoding.c").read_text()
    assert "1.0f / (1.0f + expf" in source
    (tmp_path / "wrong.c").write_text(source.replace("1.0f / (1.0f + expf", "1.1f / (1.0f + expf"))
    assert not compiled_from(tmp_path / "wrong.c", tmp_path / "decoding.lib")
    monkeypatch.setattr(decoding, "__file__", str(tmp_path / "decoding.py"))
    with pytest.warns(RuntimeWarning, match="gives wrong numbers on this machine"):
        assert decoding.library.__wrapped__() is None


def test_an_installation_without_a_compiler_goes_on(tmp_path, monkeypatch):
    source = ROOT / "src/attangent/attention/backends/cpu/decoding.c"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no C compiler (no-such-compiler)" in compiled_from(source, tmp_path / "one.so")
    monkeypatch.delenv("CC")
    (tmp_path / "wrong.c").write_text("this is not C")
    assert compiled_from(tmp_path / "wrong.c", tmp_path / "two.so")
    assert not list(tmp_path.glob("*.so"))


@compiled
def test_the_source_compiles_without_a_warning(tmp_path):
    source = ROOT / "src/attangent/attention/backends/cpu/decoding.c"
    options = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-psabi", "-O3", "-shared", "-fPIC"]
    done = subprocess.run(
        ["cc", *options, source, "-o", tmp_path / "it.so", "-lm"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ctypes.CDLL(str(tmp_path / "it.so")).decoding_version() == decoding._VERSION
