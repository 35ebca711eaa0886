"""The attention functions that transformers calls: attention with the prefix of the active adapters.

One function per original implementation is registered, with its masks. Without a prefix the function calls
the original, so that a model without active adapters answers bit for bit as before.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attangent.adapters.call import AttentionCall
from attangent.adapters.slot import Slot, slot_of
from attangent.attention import Prefix, merge_prefix
from attangent.attention.backends.torch.decode import Folded, PrefixAlone, decode, is_plain
from attangent.attention.backends.triton import is_installed

CallTensors = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""Queries, keys, values and mask, as transformers passes them."""
Answer = tuple[Tensor, Tensor | None]
"""The output (B, L, H, dv), and the attention weights if the implementation computes them."""
Attend = Callable[[nn.Module, Prefix | None, CallTensors, dict[str, Any]], Answer]

_NAMES = {"sdpa": "attangent_sdpa", "eager": "attangent_eager"}


def register() -> None:
    """Register the functions with transformers; `attach` calls this, repeated calls change nothing."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    for original, attend in (("sdpa", _sdpa), ("eager", _eager)):
        AttentionInterface.register(_NAMES[original], partial(_with_prefix, attend))
        AttentionMaskInterface.register(_NAMES[original], ALL_MASK_ATTENTION_FUNCTIONS[original])


def name_for(original: str | None) -> str:
    """Return our name for an implementation; fused ones, which return no logsumexp, become sdpa."""
    return _NAMES.get(original or "sdpa", _NAMES["sdpa"])


def _with_prefix(
    attend: Attend,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> Answer:
    """Return attention with the prefix of the module's slot."""
    tokens = (query, key, value, attention_mask)
    slot = slot_of(module)
    if slot is None:
        return attend(module, None, tokens, options)
    if slot.recorder is not None:
        slot.recorder(AttentionCall.of(module, *tokens, options))
    elif slot.enabled and attend is _sdpa:
        out = _decoded(module, slot, AttentionCall.of(module, *tokens, options))
        if out is not None:
            return out.transpose(1, 2).contiguous(), None
        if slot.folded is not None and slot.folded.is_nothing:
            return _sdpa(module, None, tokens, options)
    if slot.rows is not None and slot.enabled:
        return _by_rows(attend, module, slot, tokens, options)
    return attend(module, slot.current(), tokens, options)


def _sdpa(module: nn.Module, prefix: Prefix | None, tokens: CallTensors, options: dict[str, Any]) -> Answer:
    if prefix is None:
        return _original("sdpa", module)(module, *tokens, **options)
    out = AttentionCall.of(module, *tokens, options).with_prefix(prefix)
    return out.transpose(1, 2).contiguous(), None


def _eager(module: nn.Module, prefix: Prefix | None, tokens: CallTensors, options: dict[str, Any]) -> Answer:
    """Run the model's eager attention and merge its output with the prefix by the logsumexp of its logits."""
    out, weights = _original("eager", module)(module, *tokens, **options)
    if prefix is None:
        return out, weights
    call = AttentionCall.of(module, *tokens, options)
    merged = merge_prefix(call.q, out.transpose(1, 2), call.logsumexp(), prefix, call.scale)
    merged = call.without_blind(merged)
    return merged.to(out.dtype).transpose(1, 2).contiguous(), weights


def _by_rows(
    attend: Attend, module: nn.Module, slot: Slot, tokens: CallTensors, options: dict[str, Any]
) -> Answer:
    """Compute rows with the same prefix together and restore their order."""
    groups = slot.row_groups()
    outputs = []
    for rows, prefix in groups:
        query, key, value, mask = (_rows_of(tensor, rows) for tensor in tokens)
        row_options = options
        if options.get("position_bias") is not None:
            row_options = options | {"position_bias": _rows_of(options["position_bias"], rows)}
        outputs.append(attend(module, prefix, (query, key, value, mask), row_options))  # type: ignore[arg-type]
    order = [row for rows, _ in groups for row in rows]
    back = sorted(range(len(order)), key=order.__getitem__)
    outs, weights = zip(*outputs, strict=True)
    joined = None if weights[0] is None else torch.cat(weights)[back]
    return torch.cat(outs)[back], joined


def _rows_of(tensor: Tensor | None, rows: list[int]) -> Tensor | None:
    return tensor if tensor is None or len(tensor) == 1 else tensor[rows]


def _decoded(module: nn.Module, slot: Slot, call: AttentionCall) -> Tensor | None:
    """Return the output for a prompt or one new query by folded weights; None if the general path is needed.

    Folded weights are reused until the next text starts, which only causal layers can tell.
    """
    if slot.rows is not None and _on_gpu(call.q):
        return _decoded_on_gpu(slot, call)
    folded = slot.folded
    if folded is None or not folded.serves(call.q, call.k, call.dropout):
        slot.folded = folded = _folded(module, slot, call)
    if folded is None or not isinstance(folded.alone, PrefixAlone):
        return None
    return decode(call.q, call.k, call.v, call.mask, call.scale, folded.alone)


def _on_gpu(q: Tensor) -> bool:
    return q.is_cuda and is_installed()


def _decoded_on_gpu(slot: Slot, call: AttentionCall) -> Tensor | None:
    """Return the output for one new query per row in one kernel; None if the general path is needed."""
    unusual = (
        torch.is_grad_enabled() or torch.compiler.is_compiling() or call.dropout or call.bias is not None
    )
    if unusual or call.q.shape[2] != 1:
        return None
    from attangent.attention.backends.triton.attention import decode_rows, row_prefixes

    folded = slot.folded
    if folded is None or not folded.serves(call.q, call.k, call.dropout):
        owners = {row: prefix for rows, prefix in slot.row_groups() for row in rows}
        states = [owners[row] for row in range(len(owners))]
        slot.folded = folded = Folded.watching(row_prefixes(states), states)
    if folded.alone is None or isinstance(folded.alone, PrefixAlone):
        return None
    return decode_rows(call.q, call.k, call.v, call.mask, call.scale, call.softcap, folded.alone)


def _folded(module: nn.Module, slot: Slot, call: AttentionCall) -> Folded | None:
    plain = is_plain(call.q, call.k, call.v, call.softcap, call.dropout, call.bias)
    if not plain or not getattr(module, "is_causal", False):
        return None
    begins = call.mask is None and call.q.shape[2] == call.k.shape[2] and call.causal
    if call.q.shape[2] > 1 and not begins:
        return None  # no new texts of equal length with all their tokens
    if slot.rows is not None:
        return Folded.of_rows(slot.row_groups(), call.scale, call.q, slot.folds)
    prefix = slot.current()
    return None if prefix is None else Folded.of(prefix, call.scale, call.q)


def _original(name: str, module: nn.Module) -> Callable[..., Answer]:
    if name == "eager":
        return sys.modules[type(module).__module__].eager_attention_forward
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward
