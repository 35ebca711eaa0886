"""Plain torch operations for every device, mask and option, differentiable as often as needed."""

import math
from functools import partial

import torch
from torch import Tensor

from attangent.attention._inputs import check_is_prefix, check_merge, check_scale, compute_dtype
from attangent.attention.backends.cpu.merge import Setting, can_merge, merge
from attangent.attention.features.base import FeatureMap
from attangent.attention.head_parts import joined_heads, split_heads
from attangent.attention.masks import Mask
from attangent.attention.prefix import Prefix, Weights, largest_exponent, prefix_terms, query_gain
from attangent.attention.ragged import Ragged

_LOGITS = 1 << 23


def token_part(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    scale: float,
    *,
    softcap: float | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(scale q k' + bias) v (B, H, Lq, dv) and the logsumexp of its logits (B, H, Lq).

    A row that sees no token has output 0 and logsumexp -inf. Dropout acts on the probabilities.
    """
    q, k, v = (tensor.to(compute_dtype(q.dtype)) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
    root = math.sqrt(abs(scale))
    logits = (q * math.copysign(root, scale)) @ (k * root).mT
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    logits = _masked(logits, mask)
    probabilities, lse = torch.softmax(logits, dim=-1), torch.logsumexp(logits, dim=-1)
    if mask.empty is not None:
        probabilities = probabilities.masked_fill(mask.empty.unsqueeze(-1), 0)
        lse = lse.masked_fill(mask.empty, -torch.inf)
    if dropout > 0:
        drawn = torch.rand(probabilities.shape, generator=generator, device=q.device, dtype=q.dtype)
        probabilities = probabilities * ((drawn >= dropout).to(drawn.dtype) / (1 - dropout))
    return probabilities @ v, lse


def attend_in_chunks(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """`token_part` of queries (heads, n, d), keys (heads, m, d) and values (heads, m, dv), unmasked.

    At most `_LOGITS` logits exist at once.
    """
    heads, m, _ = keys.shape
    k, v = keys.unsqueeze(0), values.unsqueeze(0)
    parts = []
    for q in queries.unsqueeze(0).split(max(1, _LOGITS // max(1, heads * m)), dim=2):
        nothing = torch.ones(1, 1, q.shape[2], dtype=torch.bool, device=q.device)
        parts.append(token_part(q, k, v, Mask() if m else Mask(empty=nothing), scale))
    return torch.cat([out for out, _ in parts], dim=2)[0], torch.cat([lse for _, lse in parts], dim=2)[0]


def _masked(logits: Tensor, mask: Mask) -> Tensor:
    if mask.bias is not None:
        logits = logits + mask.bias.to(logits.dtype)
    if mask.causal:
        later = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(later, -torch.inf)
    if mask.empty is not None:
        logits = logits.masked_fill(mask.empty.unsqueeze(-1), 0)  # keeps NaN out of the gradient
    return logits


def merge_prefix(q: Tensor, output: Tensor, logsumexp: Tensor, state: Prefix, scale: float) -> Tensor:
    """(e^lse o + phi(q) Z) / (e^lse + phi(q) k): adds a prefix to the (o, lse) of any token attention."""
    check_is_prefix(state)
    check_merge(q, output, logsumexp)
    scale = check_scale(scale, q.shape[-1])
    if isinstance(state, Ragged):
        parts = split_heads(state, q.shape[1], q.shape[1])
        outs = [_merged(q[:, at], output[:, at], logsumexp[:, at], own, scale) for at, _, own in parts]
        return joined_heads(outs, parts)
    return _merged(q, output, logsumexp, state, scale)


def _merged(q: Tensor, output: Tensor, logsumexp: Tensor, state: Prefix, scale: float) -> Tensor:
    dtype, features, (Z, mass) = compute_dtype(q.dtype), state.features, state.weights()
    cap = largest_exponent(dtype, Z.dtype, mass.dtype)
    plainly = partial(_merged_plainly, features, scale, cap)
    given = q.to(dtype), output.to(dtype), logsumexp.to(dtype), Z, mass
    setting = Setting(features, query_gain(scale, q.shape[-1]), cap, plainly)
    return merge(setting, *given) if can_merge(setting, *given) else plainly(*given)


def _merged_plainly(
    features: FeatureMap,
    scale: float,
    cap: float,
    q: Tensor,
    output: Tensor,
    lse: Tensor,
    Z: Tensor,
    mass: Tensor,
) -> Tensor:
    numerator, mass, shift = prefix_terms(q, Weights(features, Z, mass), scale)
    lse = lse.unsqueeze(-1)
    top = _top(lse.detach(), mass.detach(), shift)
    tokens = torch.exp(lse - top)
    prefix = torch.exp((shift - top).clamp(max=cap))
    total = tokens + mass * prefix
    nothing = total == 0
    merged = (output * tokens + numerator * prefix) / torch.where(nothing, 1, total)
    return torch.where(nothing, 0, merged)


def _top(lse: Tensor, mass: Tensor, shift: Tensor) -> Tensor:
    """The larger of the two logarithms of mass, 0 where there is no mass at all."""
    top = torch.maximum(lse, mass.abs().log() + shift)
    return torch.where(torch.isinf(top), torch.zeros_like(top), top)


def portable_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Prefix,
    mask: Mask,
    scale: float,
    *,
    softcap: float | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """NTK-Attention by `token_part` and `merge_prefix`, in the dtype of q."""
    output, lse = token_part(q, k, v, mask, scale, softcap=softcap, dropout=dropout, generator=generator)
    return merge_prefix(q, output, lse, state, scale).to(q.dtype)
