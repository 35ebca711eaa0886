"""The attention function that transformers calls: attention with the prefix of the layer's active adapters.

It is registered under one name for each implementation it stands in for, with that implementation's masks:
without a prefix it hands over to it, so that a model without active adapters answers bit for bit as before.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attangent.adapters.decoding.fold import Folded, decode, is_plain
from attangent.adapters.slot import Slot, slot_of
from attangent.attention import Prefix, merge_prefix, ntk_attention
from attangent.attention.masks import resolve_mask
from attangent.attention.portable import token_part

_NAMES = {"sdpa": "attangent_sdpa", "eager": "attangent_eager"}


def register() -> None:
    """Make the functions known to transformers; done by `attach`, harmless when repeated."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    for original, function in (("sdpa", _sdpa_with_prefix), ("eager", _eager_with_prefix)):
        AttentionInterface.register(_NAMES[original], function)
        AttentionMaskInterface.register(_NAMES[original], ALL_MASK_ATTENTION_FUNCTIONS[original])


def name_for(original: str | None) -> str:
    """The name that stands in for this implementation; fused ones without a logsumexp become sdpa."""
    return _NAMES.get(original or "sdpa", _NAMES["sdpa"])


def _sdpa_with_prefix(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    decoded = _decoded(module, query, key, value, attention_mask, options)
    if decoded is not None:
        return decoded.transpose(1, 2).contiguous(), None
    prefix = _prefix(module, query, key, value, attention_mask, options)
    if prefix is None:
        return _original("sdpa", module)(module, query, key, value, attention_mask, **options)
    mask, causal = token_mask(module, query, key, attention_mask, options)
    out = ntk_attention(
        query,
        key,
        value,
        prefix,
        mask=mask,
        causal=causal,
        scale=options.get("scaling"),
        dropout=options.get("dropout", 0.0),
        softcap=options.get("softcap"),
    )
    return out.transpose(1, 2).contiguous(), None


def _decoded(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Tensor | None:
    """The output for a prompt or one new query, by folded weights; None where the general path must do it.

    What is folded is kept until the next text begins: layers that are not causal have no such beginning.
    """
    slot = slot_of(module)
    if slot is None or not slot.enabled or slot.recorder is not None:
        return None
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    folded = slot.folded
    if folded is None or not folded.serves(query, key, options):
        slot.folded = folded = _folded(module, slot, query, key, value, mask, scale, options)
    if folded is None or folded.alone is None:
        return None
    return decode(query, key, value, folded.alone, mask, scale)


def _folded(
    module: nn.Module,
    slot: Slot,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    options: dict[str, Any],
) -> Folded | None:
    if not is_plain(q, k, v, options) or not getattr(module, "is_causal", False):
        return None
    if q.shape[2] > 1 and not _is_prompt(q, k, mask, options):
        return None
    prefix = slot.current()
    return None if prefix is None else Folded.of(prefix, scale, q)


def _is_prompt(q: Tensor, k: Tensor, mask: Tensor | None, options: dict[str, Any]) -> bool:
    """Whether these are all tokens of texts of one length so far."""
    return mask is None and q.shape[2] == k.shape[2] and options.get("is_causal") is not False


def _eager_with_prefix(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """The model's own eager attention, its output merged with the prefix by the logsumexp of its logits."""
    prefix = _prefix(module, query, key, value, attention_mask, options)
    out, weights = _original("eager", module)(module, query, key, value, attention_mask, **options)
    if prefix is None:
        return out, weights
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    lse = token_logsumexp(module, query, key, value, attention_mask, options)
    merged = merge_prefix(query, out.transpose(1, 2), lse, prefix, scale)
    return merged.to(out.dtype).transpose(1, 2).contiguous(), weights


def token_logsumexp(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Tensor:
    """The logarithm of each query's mass over the tokens, (B, H, Lq)."""
    seen, causal = token_mask(module, query, key, mask, options)
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    resolved = resolve_mask(seen, causal, query, key)
    return token_part(query, key, value[..., :1], resolved, scale, softcap=options.get("softcap"))[1]


def token_mask(
    module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> tuple[Tensor | None, bool]:
    """(mask, causal) as transformers' sdpa attention understands its arguments."""
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    rows, columns = query.shape[2], key.shape[2]
    causal = bool(causal) and rows > 1 and mask is None
    bias = options.get("position_bias")
    if causal and (rows != columns or bias is not None):
        mask, causal = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril(), False
    if bias is None:
        return mask, causal
    if mask is None:
        return bias, causal
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, torch.finfo(bias.dtype).min), causal
    return bias + mask, causal


def _prefix(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Prefix | None:
    slot = slot_of(module)
    if slot is None:
        return None
    if slot.recorder is not None:
        slot.recorder(module, query, key, value, mask, options)
    return slot.current()


def _original(name: str, module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    if name == "eager":
        return sys.modules[type(module).__module__].eager_attention_forward
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward
