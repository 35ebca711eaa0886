"""Attention with a prefix: exact, and NTK-Attention, whose cost does not depend on the prefix's length."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention._inputs import (
    LEAST_FUSED_SCALE,
    check_dropout,
    check_scale,
    check_softcap,
    check_state,
    check_tokens,
    describe,
)
from attangent.attention.backends.cpu.quick import quick_attention
from attangent.attention.backends.torch.fused import fused_attention
from attangent.attention.backends.torch.portable import portable_attention, token_part
from attangent.attention.backends.torch.tokens import is_fused
from attangent.attention.backends.triton import is_installed
from attangent.attention.masks import Mask, checked_mask, resolve_mask
from attangent.attention.prefix import Prefix, PrefixWeights, RaggedTokens, joined_heads


def prefix_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    prefix_k: Tensor,
    prefix_v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Compute softmax(q [K_C; k]'/sqrt d) [V_C; v]: m tokens in front (P1 Eq. 1, Algorithms 1 and 3).

    Every query sees the whole prefix; `mask` and `causal` apply to the tokens k alone.

    Args:
        q: Queries (B, H, Lq, d).
        k: Keys (B, Hkv, Lk, d); Hkv divides H.
        v: Values (B, Hkv, Lk, dv).
        prefix_k: Keys K_C of the prefix, (Hkv, m, d) or (B, Hkv, m, d).
        prefix_v: Values V_C of the prefix, (Hkv, m, dv) or (B, Hkv, m, dv).
        mask: Boolean (True: visible) or added to the logits; broadcasts to (B, H, Lq, Lk).
        causal: Align the last query with the last key and hide later keys; combines with `mask`.
        scale: Factor of the logits; 1/sqrt d by default.
        dropout: Dropout rate of the probabilities.
        softcap: Cap of the logits, cap tanh(logit/cap); None for no cap.
        generator: Source of the dropout; torch's global one by default.

    Returns:
        The output (B, H, Lq, dv) in the dtype of q.

    Raises:
        AttangentError: If shapes, dtypes or options do not fit together.

    Example:
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4).unbind()
        >>> prefix_attention(q, k, v, torch.randn(2, 9, 4), torch.randn(2, 9, 4), causal=True).shape
        torch.Size([1, 2, 5, 4])
    """
    check_tokens(q, k, v)
    scale = check_scale(scale, q.shape[-1])
    dropout = check_dropout(dropout)
    softcap = check_softcap(softcap)
    prefix_k = _like_tokens("prefix_k", prefix_k, k)
    prefix_v = _like_tokens("prefix_v", prefix_v, v)
    if prefix_k.shape[2] != prefix_v.shape[2]:
        raise AttangentError(
            f"the prefix has {prefix_k.shape[2]} keys and {prefix_v.shape[2]} values, "
            "expected as many of each"
        )
    longer = _extended(resolve_mask(mask, causal, q, k), prefix_k.shape[2], q, k)
    k = torch.cat([prefix_k, k], dim=2)
    v = torch.cat([prefix_v, v], dim=2)
    if dropout > 0 or softcap is not None or scale < LEAST_FUSED_SCALE:
        out, _ = token_part(q, k, v, longer, scale, softcap=softcap, dropout=dropout, generator=generator)
        return out.to(q.dtype)
    shared = k.shape[1] < q.shape[1]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=longer.bias, is_causal=longer.causal, scale=scale, enable_gqa=shared
    )


def _like_tokens(name: str, prefix: Tensor, tokens: Tensor) -> Tensor:
    batch, heads, _, size = tokens.shape
    if prefix.ndim == 3:
        prefix = prefix.unsqueeze(0).expand(batch, -1, -1, -1)
    fits = prefix.ndim == 4 and prefix.dtype == tokens.dtype
    if not fits or (prefix.shape[0], prefix.shape[1], prefix.shape[3]) != (batch, heads, size):
        raise AttangentError(
            f"{name} is {describe(prefix)}, expected {str(tokens.dtype).removeprefix('torch.')} of shape "
            f"({heads}, m, {size}) or ({batch}, {heads}, m, {size})"
        )
    return prefix


def _extended(mask: Mask, length: int, q: Tensor, k: Tensor) -> Mask:
    """Prepend `length` columns that every query sees."""
    if length == 0:
        return mask
    bias = mask.bias
    if mask.causal:
        seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        bias = torch.zeros_like(seen, dtype=q.dtype).masked_fill(~seen, -torch.inf)[None, None]
    if bias is not None:
        bias = bias.expand(*bias.shape[:-1], k.shape[-2])
        bias = F.pad(bias, (length, 0))
    return Mask(bias)


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
    """Compute (e^A v + phi(q) Z) / (e^A 1 + phi(q) k) with A = scale q k' (P1 Algorithms 2 and 4).

    Every query sees the prefix. A query that sees no token gets the output of the prefix alone, or 0 if the
    prefix has no mass. The fused attention of the device is used if it supports the call, otherwise plain
    operations; gradients of gradients always use plain operations.

    Args:
        q: Queries (B, H, Lq, d).
        k: Keys (B, Hkv, Lk, d); Hkv divides H.
        v: Values (B, Hkv, Lk, dv).
        state: The prefix, such as a `PrefixState`; its heads divide H.
        mask: Boolean (True: visible) or added to the logits; broadcasts to (B, H, Lq, Lk).
        causal: Align the last query with the last key, as decoding with a cache requires, and hide later
            keys; combines with `mask`.
        scale: Factor of the logits; 1/sqrt d by default.
        dropout: Dropout rate of the token probabilities.
        softcap: Cap of the token logits, cap tanh(A/cap); None for no cap.
        generator: Source of the dropout; torch's global one by default.

    Returns:
        The output (B, H, Lq, dv) in the dtype of q; the prefix is computed in at least float32.

    Raises:
        AttangentError: If shapes, dtypes or options do not fit together.

    Example:
        >>> from attangent.attention import PrefixState
        >>> from attangent.attention.features import Elu
        >>> q, k, v = torch.randn(3, 1, 2, 5, 4).unbind()
        >>> ntk_attention(q, k, v, PrefixState.zero(Elu(4), heads=2), causal=True).shape
        torch.Size([1, 2, 5, 4])
    """
    options = mask, causal, scale, dropout, softcap, generator
    if mask is None and softcap is None and dropout == 0 and not isinstance(state, RaggedTokens):
        out = quick_attention(q, k, v, state, causal, scale)
        if out is not None:
            return out
    if not q.is_meta and torch.is_autocast_enabled(q.device.type):
        lower = torch.get_autocast_dtype(q.device.type)
        q, k, v = (tensor if tensor.dtype == torch.float64 else tensor.to(lower) for tensor in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            return _attend_groups(q, k, v, state, *options)
    return _attend_groups(q, k, v, state, *options)


def _attend_groups(q: Tensor, k: Tensor, v: Tensor, state: Prefix, mask: Any, *options: Any) -> Tensor:
    """Attend to heads of similar size together if their states differ in size, else to all at once."""
    if q.is_cuda and is_installed():
        out = _attend_on_gpu(q, k, v, state, mask, *options)
        if out is not None:
            return out
    if not isinstance(state, RaggedTokens):
        return _attend(q, k, v, state, mask, *options)
    check_tokens(q, k, v)
    groups = state.groups(q.shape[1], k.shape[1])
    if len(groups) == 1:
        return _attend(q, k, v, groups[0].prefix, mask, *options)
    outs = []
    for group in groups:
        queries, keys, prefix = group
        inputs = q[:, queries], k[:, keys], v[:, keys], prefix
        outs.append(_attend(*inputs, group.masked(mask), *options))
    return joined_heads(outs, groups)


def _attend_on_gpu(
    q: Tensor, k: Tensor, v: Tensor, state: Prefix, mask: Tensor | None, *options: Any
) -> Tensor | None:
    from attangent.attention.backends.triton.attention import triton_attention

    causal, scale, dropout, softcap, _ = options
    check_tokens(q, k, v)
    if check_dropout(dropout) > 0:
        return None
    scale = check_scale(scale, q.shape[-1])
    if mask is not None:
        mask = checked_mask(mask, (*q.shape[:3], k.shape[2]), q.device)
    return triton_attention(q, k, v, state, mask, bool(causal), scale, check_softcap(softcap))


def _attend(q: Tensor, k: Tensor, v: Tensor, state: Prefix, mask: Tensor | None, *options: Any) -> Tensor:
    causal, scale, dropout, softcap, generator = options
    features = state.features
    Z, mass = state.weights()
    check_tokens(q, k, v)
    check_state(q, v, features.dim, features.size, Z, mass)
    scale = check_scale(scale, q.shape[-1])
    prefix = PrefixWeights(features, Z, mass)
    resolved = resolve_mask(mask, bool(causal), q, k)
    dropout = check_dropout(dropout)
    if dropout == 0 and softcap is None and scale >= LEAST_FUSED_SCALE and is_fused(q, k, v, resolved):
        return fused_attention(q, k, v, prefix, resolved, scale)
    softcap = check_softcap(softcap)
    return portable_attention(
        q, k, v, prefix, resolved, scale, softcap=softcap, dropout=dropout, generator=generator
    )
