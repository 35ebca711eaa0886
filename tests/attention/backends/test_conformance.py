"""Every backend computes the one formula: a new backend joins by a line in `BACKENDS`."""

import copy
import math

import pytest
import torch

from attangent.attention import PrefixState, ntk, ntk_attention
from attangent.attention.backends.cpu import decoding, prepare
from attangent.attention.backends.cpu import quick as quick_module
from attangent.attention.backends.cpu.quick import quick_attention
from attangent.attention.backends.torch import fused as fused_module
from attangent.attention.backends.torch.decode import decode, fold
from attangent.attention.backends.torch.portable import portable_attention
from attangent.attention.features import Calibrated
from attangent.attention.masks import resolve_mask
from tests.attention.cases import MAPS, gradients, make_map, make_mask, make_state, normal, tokens

AFFINE = ["elu", "anchors", "anchors-damped", "learned-elu", "learned-gelu", "learned-damped", "calibrated"]
"""Maps that the compiled passes know; the others must take another backend."""
KERNELS = ["elu", "taylor-1", "anchors", "anchors-softcap", "anchors-damped", "learned-elu", "learned-gelu"]
GPU = "cuda" if torch.cuda.is_available() else "cpu"
FOLDABLE = ["elu", "anchors", "anchors-damped", "learned-gelu", "learned-damped", "calibrated"]


def reference(q, k, v, state, mask=None, causal=False):
    """(e^A v + phi(q) Z) / (e^A 1 + phi(q) k) with plain exponentials, by operations that autograd knows."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    if mask is not None:
        weights = weights * (mask if mask.dtype == torch.bool else mask.exp())
    if causal:
        weights = weights.tril(k.shape[2] - q.shape[2])
    Z, mass = state.Z, state.k
    phi = state.features(q.reshape(q.shape[0], len(Z), -1, q.shape[-1]))
    above, below = ((phi @ each).reshape(*q.shape[:3], -1) for each in (Z, mass.unsqueeze(-1)))
    return (weights @ v + above) / (weights.sum(dim=-1, keepdim=True) + below)


def portable(q, k, v, state, mask, causal, monkeypatch):
    monkeypatch.setattr(prepare, "trusted", lambda: None)
    return portable_attention(q, k, v, state, resolve_mask(mask, causal, q, k), 1 / math.sqrt(q.shape[-1]))


def fused(q, k, v, state, mask, causal, monkeypatch):
    monkeypatch.setattr(prepare, "trusted", lambda: None)
    return ntk_attention(q, k, v, state, mask=mask, causal=causal)


def compiled(q, k, v, state, mask, causal, monkeypatch):
    library, calls = prepare.trusted(), []
    counted = library._replace(forward=lambda *call: calls.append(call) or library.forward(*call))
    monkeypatch.setattr(prepare, "trusted", lambda: counted)
    monkeypatch.setattr(ntk, "quick_attention", lambda *call: None)
    with torch.enable_grad():
        out = ntk_attention(q, k, v, state, mask=mask, causal=causal)
    assert len(calls) == 1, "torch did the work of the compiled code"
    return out


def quick(q, k, v, state, mask, causal, monkeypatch):
    return quick_attention(q, k, v, state, causal, None) if mask is None else None


def compiled_bfloat16(q, k, v, state, mask, causal, monkeypatch):
    """The compiled code alone, tokens included."""
    if q.shape[2] == 1 or not prepare.trusted().takes_tokens:
        return None
    for module in (quick_module, fused_module):
        monkeypatch.setattr(module, "flash", None)
    monkeypatch.setattr(fused_module, "flash_gradients", None)
    return ntk_attention(q, k, v, state, mask=mask, causal=causal)


def decode_torch(q, k, v, state, mask, causal, monkeypatch):
    monkeypatch.setattr(decoding, "library", lambda: None)
    return _decoded(q, k, v, state, mask, causal)


def decode_compiled(q, k, v, state, mask, causal, monkeypatch):
    return _decoded(q, k, v, state, mask, causal)


def triton(q, k, v, state, mask, causal, monkeypatch):
    """The Triton kernels: on a GPU if there is one, else in the interpreter."""
    module = pytest.importorskip("attangent.attention.backends.triton.attention", reason="no Triton here")
    q, k, v, state = (each.to(GPU) for each in (q, k, v, state))
    mask = mask if mask is None else mask.to(GPU)
    out = module.triton_attention(q, k, v, state, mask, causal, 1 / math.sqrt(q.shape[-1]), None)
    return None if out is None else out.cpu()


def _decoded(q, k, v, state, mask, causal):
    if q.shape[2] > 1 and not (causal and mask is None and q.shape[2] == k.shape[2]):
        return None  # decode takes a single query, or all of a prompt
    with torch.no_grad():
        return decode(q, k, v, mask, 1 / math.sqrt(q.shape[-1]), fold(state, 1 / math.sqrt(q.shape[-1]), q))


BACKENDS = {
    "torch portable": (portable, torch.float64, MAPS),
    "torch fused": (fused, torch.float64, MAPS),
    "torch fused, float32": (fused, torch.float32, MAPS),
    "cpu compiled": (compiled, torch.float32, AFFINE),
    "cpu quick": (quick, torch.float32, AFFINE),
    "cpu compiled, bfloat16": (compiled_bfloat16, torch.bfloat16, AFFINE),
    "torch decode": (decode_torch, torch.float64, FOLDABLE),
    "torch decode, float32": (decode_torch, torch.float32, FOLDABLE),
    "cpu decode": (decode_compiled, torch.float32, FOLDABLE),
    "triton": (triton, torch.float32, KERNELS),
}
DIFFERENTIABLE = [name for name in BACKENDS if "decode" not in name]
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 1e-2}
KERNEL_TOLERANCE = 2e-6
SHAPES = [(2, 4, 2, 9, 9, 16), (1, 2, 2, 1, 7, 8), (2, 2, 1, 40, 150, 16)]
"""Batch, heads, key heads, queries, keys, head size: square, decoding, and more than a tile and a block."""


def tolerance(backend, dtype):
    return KERNEL_TOLERANCE if backend == "triton" else TOLERANCE[dtype]


def shaped(backend, name, masked, shape):
    """Whether to run a case: the interpreter is slow and sees long inputs of one mask and two maps only.

    A single query sees all keys, causal or not: except in Triton it gets no mask (`test_masks.py`).
    """
    long = shape is SHAPES[2]
    if shape[3] == 1 and masked == "causal" and backend != "triton":
        return False
    return backend != "triton" or not long or (masked == "causal" and name in ("anchors", "learned-elu"))


def sized(backend, shape):
    """The shape for a backend: the interpreter runs one program per batch row and head, so it gets fewer."""
    return (1, *shape[1:]) if backend == "triton" and shape is SHAPES[0] else shape


def cases(backends=tuple(BACKENDS), masks=("none", "causal", "bool-keys", "added-rows")):
    return [
        pytest.param(backend, name, masked, sized(backend, shape), id=f"{backend}-{name}-{masked}-{label}")
        for backend in backends
        for name in BACKENDS[backend][2]
        for masked in masks
        for shape, label in zip(SHAPES, ("square", "one query", "long"), strict=True)
        if shaped(backend, name, masked, shape)
    ]


def prefix(name, dim, foldable):
    """The state of a map for two heads; decoding wants the mass of learned features in the constant one."""
    if name == "calibrated":
        units = normal(2, dim, seed=1), normal(2, seed=2).exp(), normal(2, seed=3)
        features = Calibrated(make_map("learned-gelu", dim, 2), *units)
        state = PrefixState(features, normal(2, 6, dim, seed=4), 5 * torch.eye(6).double()[:1].repeat(2, 1))
    else:
        state = make_state(name, dim, 2)
    if foldable and not state.features.positive:
        with torch.no_grad():
            state.mass.copy_(5 * torch.eye(state.mass.shape[1])[:1])
    return state


def inputs(shape, dtype):
    """Queries, keys and values in float64, but of numbers that the dtype has if that is bfloat16."""
    q, k, v = tokens(*shape)
    return [t.to(dtype).double() if dtype == torch.bfloat16 else t.double() for t in (q / 2, k / 2, v)]


def lowered(state, dtype):
    """The state in the dtype of tokens, at least in float32."""
    return copy.deepcopy(state).to(torch.float32 if dtype == torch.bfloat16 else dtype)


@pytest.fixture(autouse=True)
def _needs_compiler(request):
    name = request.node.callspec.params["backend"]
    if name.startswith("cpu") and (prepare.trusted() is None or decoding.library() is None):
        pytest.skip("there was no C compiler at installation")


@pytest.mark.parametrize(("backend", "name", "masked", "shape"), cases())
def test_the_output_is_that_of_the_formula(backend, name, masked, shape, monkeypatch):
    attend, dtype, _ = BACKENDS[backend]
    state = prefix(name, shape[-1], "decode" in backend)
    q, k, v = inputs(shape, dtype)
    causal = masked == "causal"
    mask = None if causal else make_mask(masked, shape[0], shape[1], *shape[3:5])
    want = reference(q, k, v, state, mask, causal).detach()
    mask = mask.to(dtype) if mask is not None and mask.is_floating_point() else mask
    low = lowered(state, dtype)
    out = attend(*(t.to(dtype) for t in (q, k, v)), low, mask, causal, monkeypatch)
    if out is None:
        pytest.skip("this backend leaves the call to another")
    assert out.dtype == dtype
    bound = tolerance(backend, dtype)
    torch.testing.assert_close(out.detach().double(), want, rtol=bound, atol=bound)


@pytest.mark.parametrize(
    ("backend", "name", "masked", "shape"), cases(DIFFERENTIABLE, masks=("none", "causal"))
)
def test_every_gradient_is_that_of_the_formula(backend, name, masked, shape, monkeypatch):
    causal = masked == "causal"
    attend, dtype, _ = BACKENDS[backend]
    state = prefix(name, shape[-1], foldable=False)
    exact = [t.requires_grad_() for t in inputs(shape, dtype)]
    want = gradients(reference(*exact, state, None, causal), [*exact, *state.parameters()])
    low = lowered(state, dtype)
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in exact)
    out = attend(q, k, v, low, None, causal, monkeypatch)
    if out is None:
        pytest.skip("this backend leaves the call to another")
    for have, expected in zip(gradients(out, [q, k, v, *low.parameters()]), want, strict=True):
        size = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(
            have.double(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size
        )
