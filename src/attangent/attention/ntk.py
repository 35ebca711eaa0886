"""NTK-Attention: attention with a prefix of any length at a cost that does not depend on it."""

from typing import Any

import torch
from torch import Tensor

from attangent.attention._inputs import (
    LEAST_FUSED_SCALE,
    all_fit,
    check_flag,
    check_is_prefix,
    check_scale,
    check_share,
    check_softcap,
    check_state,
    check_tokens,
)
from attangent.attention.backends.portable import portable_attention
from attangent.attention.backends.torch.forward import fused_attention
from attangent.attention.backends.torch.quick import quick_attention
from attangent.attention.backends.torch.tokens import fused_for
from attangent.attention.head_parts import joined_heads, split_heads
from attangent.attention.masks import resolve_mask
from attangent.attention.prefix import Prefix, Weights
from attangent.attention.ragged import Ragged


def ntk_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Prefix,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(e^A v + phi(q) Z) / (e^A 1 + phi(q) k) with A = scale q k' (P1 Algorithms 2 and 4).

    q is (B, H, Lq, d), k (B, Hkv, Lk, d), v (B, Hkv, Lk, dv); Hkv and the heads of the state divide H. Every
    query sees the prefix. `mask` is boolean (True: may be seen) or added to the logits, of any shape that
    broadcasts to (B, H, Lq, Lk). `causal` aligns the last query with the last key, as decoding with a cache
    needs it, and may be combined with a mask. A query that sees no token gets the output of the prefix alone,
    0 where that has no mass. `softcap` caps the token logits, cap tanh(A/cap). `dropout` acts on the
    probabilities of the tokens, drawn from `generator` (torch's global one if None).

    A fused attention of the device is used where it can be, plain operations elsewhere; gradients of
    gradients are always had by plain operations. Results are in the dtype of q, the prefix is computed in at
    least float32.

    >>> from attangent.attention import PrefixState
    >>> from attangent.attention.features import Elu
    >>> q, k, v = torch.randn(3, 1, 2, 5, 4).unbind()
    >>> ntk_attention(q, k, v, PrefixState.zero(Elu(4), heads=2), causal=True).shape
    torch.Size([1, 2, 5, 4])
    """
    options = mask, causal, scale, dropout, softcap, generator
    check_is_prefix(state)
    if mask is None and softcap is None and dropout == 0 and not isinstance(state, Ragged):
        out = quick_attention(q, k, v, state, causal, scale)
        if out is not None:
            return out
    if isinstance(q, Tensor) and not q.is_meta and torch.is_autocast_enabled(q.device.type):
        lower = torch.get_autocast_dtype(q.device.type)
        q, k, v = (tensor if tensor.dtype == torch.float64 else tensor.to(lower) for tensor in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            return _attend_parts(q, k, v, state, *options)
    return _attend_parts(q, k, v, state, *options)


def _attend_parts(q: Tensor, k: Tensor, v: Tensor, state: Prefix, mask: Any, *options: Any) -> Tensor:
    """Heads of like size together, where they have states of different sizes; else all at once."""
    if not isinstance(state, Ragged):
        return _attend(q, k, v, state, mask, *options)
    check_tokens(q, k, v)
    parts = split_heads(state, q.shape[1], k.shape[1])
    if len(parts) == 1:
        return _attend(q, k, v, parts[0].prefix, mask, *options)
    outs = [
        _attend(
            q[:, part.queries], k[:, part.keys], v[:, part.keys], part.prefix, part.masked(mask), *options
        )
        for part in parts
    ]
    return joined_heads(outs, parts)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Prefix,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    dropout: float,
    softcap: float | None,
    generator: torch.Generator | None,
) -> Tensor:
    features, (Z, mass) = state.features, state.weights()
    if not all_fit(q, k, v, features.dim, features.size, Z, mass):
        check_tokens(q, k, v)
        check_state(q, v, features.dim, features.size, Z, mass)
    scale = check_scale(scale, q.shape[-1])
    prefix = Weights(features, Z, mass)
    resolved = resolve_mask(mask, check_flag("causal", causal), q, k)
    dropout = check_share("dropout", dropout)
    if dropout == 0 and softcap is None and scale >= LEAST_FUSED_SCALE:
        fused = fused_for(q, k, v, resolved)
        if fused is not None:
            return fused_attention(fused, q, k, v, prefix, resolved, scale)
    softcap = check_softcap(softcap)
    return portable_attention(
        q, k, v, prefix, resolved, scale, softcap=softcap, dropout=dropout, generator=generator
    )
