"""The attention function that transformers calls: attention with the prefix of the layer's active adapters.

It is registered under one name for each implementation it stands in for, with that implementation's masks:
without a prefix it hands over to it, so that a model without active adapters answers bit for bit as before.
"""

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from attangent.adapters.call import AttentionCall
from attangent.adapters.decoding.fold import Folded, decode, is_plain
from attangent.adapters.slot import Slot, slot_of
from attangent.attention import Prefix, merge_prefix

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
    slot, out = slot_of(module), None
    if slot is not None:
        call = AttentionCall.of(module, query, key, value, attention_mask, options)
        out = _with_prefix(module, slot, call)
    if out is None:
        return _original("sdpa", module)(module, query, key, value, attention_mask, **options)
    return out.transpose(1, 2).contiguous(), None


def _with_prefix(module: nn.Module, slot: Slot, call: AttentionCall) -> Tensor | None:
    """Attention with what acts in the slot; None where nothing does."""
    out = _decoded(module, slot, call)
    if out is not None:
        return out
    prefix = _prefix(slot, call)
    return None if prefix is None else call.with_prefix(prefix)


def _decoded(module: nn.Module, slot: Slot, call: AttentionCall) -> Tensor | None:
    """The output for a prompt or one new query, by folded weights; None where the general path must do it.

    What is folded is kept until the next text begins: layers that are not causal have no such beginning.
    """
    if not slot.enabled or slot.recorder is not None:
        return None
    folded = slot.folded
    if folded is None or not folded.serves(call):
        slot.folded = folded = _folded(module, slot, call)
    if folded is None or folded.alone is None:
        return None
    return decode(call, folded.alone)


def _folded(module: nn.Module, slot: Slot, call: AttentionCall) -> Folded | None:
    if not is_plain(call) or not getattr(module, "is_causal", False):
        return None
    if call.q.shape[2] > 1 and not _is_prompt(call):
        return None
    prefix = slot.current()
    return None if prefix is None else Folded.of(prefix, call.scale, call.q)


def _is_prompt(call: AttentionCall) -> bool:
    """Whether these are all tokens of texts of one length so far."""
    return call.mask is None and call.q.shape[2] == call.k.shape[2] and call.causal


def _eager_with_prefix(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """The model's own eager attention, its output merged with the prefix by the logsumexp of its logits."""
    slot, prefix = slot_of(module), None
    call = AttentionCall.of(module, query, key, value, attention_mask, options)
    if slot is not None:
        prefix = _prefix(slot, call)
    out, weights = _original("eager", module)(module, query, key, value, attention_mask, **options)
    if prefix is None:
        return out, weights
    merged = merge_prefix(query, out.transpose(1, 2), call.logsumexp(), prefix, call.scale)
    return merged.to(out.dtype).transpose(1, 2).contiguous(), weights


def _prefix(slot: Slot, call: AttentionCall) -> Prefix | None:
    if slot.recorder is not None:
        slot.recorder(call)
    return slot.current()


def _original(name: str, module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    if name == "eager":
        return sys.modules[type(module).__module__].eager_attention_forward
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward
