"""Any prefix in the form that the kernels read, and attention with it.

The conversion is differentiable: autograd carries the kernels' gradients back to Z, masses, keys and the
weights of the map.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.triton.launch import prefix_attention, prefix_decode, supports
from attangent.attention.features.base import Affine
from attangent.attention.features.exponential import Anchors
from attangent.attention.features.taylor import Taylor
from attangent.attention.prefix import Prefix, RaggedTokens, query_gain, reflected

_FLOOR = 1e-20
"""Relative size of an empty virtual token: it keeps its gradient."""


class KernelPrefix(NamedTuple):
    """A prefix as `launch.prefix_attention` takes it."""

    kind: str
    tensors: list[Tensor]
    gain: float = 1.0
    softcap: float = 0.0


def triton_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Prefix,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    softcap: float | None,
) -> Tensor | None:
    """Compute NTK-Attention; None if the kernels do not know the map, the dtype or the mask.

    The arguments are those of `ntk_attention`, checked.
    """
    if 0 in (*q.shape, *k.shape) or (mask is not None and mask.requires_grad):
        return None
    prefix = kernel_prefix(state, scale, q.shape[-1])
    if prefix is None:
        return None
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v, *prefix.tensors))
    if not supports(q.shape[-1], v.shape[-1], q.dtype, trained):
        return None
    bias = None if mask is None else added(mask)
    q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
    cap = softcap or 0.0
    if q.shape[2] == 1 and prefix.kind == "tokens" and not trained:
        heads = prefix.tensors[4].shape[-1]
        if heads == k.shape[1]:
            return prefix_decode(q, k, v, bias, prefix.tensors, scale, cap, prefix.softcap)[0]
    return prefix_attention(
        q, k, v, bias, prefix.tensors, prefix.kind, causal, scale, cap, prefix.softcap, prefix.gain
    )[0]


def added(mask: Tensor) -> Tensor:
    """Return the mask as numbers added to the logits, without expanding it."""
    mask = mask[(None,) * (4 - mask.ndim)]
    if mask.dtype != torch.bool:
        return mask
    hidden = torch.full(mask.shape, -torch.inf, device=mask.device)
    return hidden.masked_fill(mask, 0.0)


def kernel_prefix(state: Prefix, scale: float, dim: int) -> KernelPrefix | None:
    """Return the prefix in the kernels' form; None if they do not know its feature map."""
    if isinstance(state, RaggedTokens):
        keys, Z, mass = state.tokens()
        return _tokens(keys, Z, reflected(mass), state.sizes, state.softcap)
    features = state.features
    Z, mass = (weight.float() for weight in state.weights())
    mass = reflected(mass) if features.positive else mass
    heads, rows = mass.shape
    if isinstance(features, Anchors):
        keys = features.acting_keys(torch.float32).expand(heads, rows, dim).reshape(-1, dim)
        return _tokens(keys, Z.flatten(0, 1), mass.flatten(), (rows,) * heads, features.softcap)
    gain = query_gain(scale, dim)
    if isinstance(features, Taylor) and features.order == 1:
        return KernelPrefix("taylor", [Z, mass, Z.new_zeros(heads)], gain * dim**-0.25)
    affine = features.affine()
    if affine is None or affine.kind == "exponential":
        return None
    level = Z.new_zeros(heads) if affine.level is None else affine.level
    if affine.kind == "elu":
        return KernelPrefix("elu", [Z, mass, level], gain * dim**-0.25)
    return KernelPrefix(affine.kind, [*_weights(affine, heads), Z, mass, level], gain)


def _weights(affine: Affine, heads: int) -> tuple[Tensor, Tensor]:
    weight = affine.weight
    assert weight is not None
    bias = weight.new_zeros(weight.shape[:2]) if affine.bias is None else affine.bias
    return weight.expand(heads, -1, -1).contiguous(), bias.expand(heads, -1).contiguous()


def _tokens(
    keys: Tensor, Z: Tensor, mass: Tensor, sizes: tuple[int, ...], softcap: float | None
) -> KernelPrefix:
    """Return virtual tokens of all heads, one head after the other."""
    keys, Z, mass = (tensor.float() for tensor in (keys, Z, mass))
    size = torch.maximum(Z.detach().abs().amax(dim=-1), mass.detach())
    largest = size.amax()
    # a token of no size would have log size -inf and no gradient
    size = torch.maximum(size, torch.where(largest > 0, _FLOOR * largest, torch.ones_like(largest)))
    length = torch.tensor(sizes, dtype=torch.int32, device=keys.device)
    start = (length.cumsum(0) - length).to(torch.int32)
    tensors = [keys.contiguous(), Z / size.unsqueeze(-1), mass / size, size.log(), start, length]
    return KernelPrefix("tokens", tensors, softcap=softcap or 0.0)


def row_prefixes(states: Sequence[Prefix | None]) -> KernelPrefix | None:
    """Return one token prefix per batch row, for decoding; None if the kernel does not know one of them.

    Tokens are concatenated and each (row, head) points into them: prefixes of other lengths need no padding.
    A row without a prefix has no token.
    """
    distinct = {id(state): state for state in states if state is not None}
    parts = {key: kernel_prefix(state, 1.0, _width(state)) for key, state in distinct.items()}
    known = [part for part in parts.values() if part is not None and part.kind == "tokens"]
    if not known or len(known) < len(parts):
        return None
    if len({(part.tensors[4].shape, part.softcap) for part in known}) > 1:
        return None
    joined = [torch.cat([part.tensors[i] for part in known]) for i in range(4)]
    nowhere = torch.zeros_like(known[0].tensors[4])
    places: dict[int, tuple[Tensor, Tensor]] = {id(None): (nowhere, nowhere)}
    first = 0
    for key, part in zip(parts, known, strict=True):
        start, length = part.tensors[4:]
        places[key] = start + first, length
        first += len(part.tensors[0])
    starts, lengths = zip(*(places[id(state)] for state in states), strict=True)
    tensors = [*joined, torch.stack(starts).to(torch.int32), torch.stack(lengths)]
    return KernelPrefix("tokens", tensors, softcap=known[0].softcap)


def _width(state: Prefix) -> int:
    return 0 if isinstance(state, RaggedTokens) else state.features.dim


def decode_rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    softcap: float | None,
    rows: KernelPrefix,
) -> Tensor | None:
    """Attend with one query per row, each row with its prefix of `row_prefixes`; None if kernels cannot."""
    fits = rows.tensors[4].shape == (len(q), k.shape[1])
    if not fits or q.shape[2] != 1 or not supports(q.shape[-1], v.shape[-1], q.dtype, gradients=False):
        return None
    bias = None if mask is None else added(mask)
    q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
    return prefix_decode(q, k, v, bias, rows.tensors, scale, softcap or 0.0, rows.softcap)[0]
