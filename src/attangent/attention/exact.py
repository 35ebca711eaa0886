"""Attention with the prefix itself: the exact reference, and the baseline of every comparison."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention._inputs import (
    LEAST_FUSED_SCALE,
    check_scale,
    check_share,
    check_softcap,
    check_tokens,
    describe,
)
from attangent.attention.backends.portable import token_part
from attangent.attention.masks import Mask, resolve_mask


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
    """softmax(q [K_C; k]'/sqrt d) [V_C; v]: attention with m tokens in front (P1 Eq. 1, Algorithms 1 and 3).

    `prefix_k` is (Hkv, m, d) or (B, Hkv, m, d), `prefix_v` likewise with the size of the values. Every query
    sees the whole prefix; `mask` and `causal` speak of the tokens k alone and are those of `ntk_attention`.

    >>> q, k, v = torch.randn(3, 1, 2, 5, 4).unbind()
    >>> prefix_attention(q, k, v, torch.randn(2, 9, 4), torch.randn(2, 9, 4), causal=True).shape
    torch.Size([1, 2, 5, 4])
    """
    check_tokens(q, k, v)
    scale, dropout, softcap = (
        check_scale(scale, q.shape[-1]),
        check_share("dropout", dropout),
        check_softcap(softcap),
    )
    prefix_k, prefix_v = _like_tokens("prefix_k", prefix_k, k), _like_tokens("prefix_v", prefix_v, v)
    if prefix_k.shape[2] != prefix_v.shape[2]:
        raise AttangentError(f"the prefix has {prefix_k.shape[2]} keys and {prefix_v.shape[2]} values")
    longer = _extended(resolve_mask(mask, causal, q, k), prefix_k.shape[2], q, k)
    k, v = torch.cat([prefix_k, k], dim=2), torch.cat([prefix_v, v], dim=2)
    if dropout > 0 or softcap is not None or scale < LEAST_FUSED_SCALE:
        out, _ = token_part(q, k, v, longer, scale, softcap=softcap, dropout=dropout, generator=generator)
        return out.to(q.dtype)
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=longer.bias,
        is_causal=longer.causal,
        scale=scale,
        enable_gqa=k.shape[1] < q.shape[1],
    )


def _like_tokens(name: str, prefix: Any, tokens: Tensor) -> Tensor:
    batch, heads, _, size = tokens.shape
    if isinstance(prefix, Tensor) and prefix.ndim == 3:
        prefix = prefix.unsqueeze(0).expand(batch, -1, -1, -1)
    fits = isinstance(prefix, Tensor) and prefix.ndim == 4 and prefix.dtype == tokens.dtype
    if not fits or (prefix.shape[0], prefix.shape[1], prefix.shape[3]) != (batch, heads, size):
        raise AttangentError(
            f"{name} is {describe(prefix)}, expected {str(tokens.dtype).removeprefix('torch.')} of shape "
            f"({heads}, m, {size}) or ({batch}, {heads}, m, {size})"
        )
    return prefix


def _extended(mask: Mask, length: int, q: Tensor, k: Tensor) -> Mask:
    """The mask with `length` columns in front that every query sees."""
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
