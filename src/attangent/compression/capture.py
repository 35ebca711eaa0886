"""A model behind a prompt that is kept apart: its keys and values once, shared by every sequence of a batch.

For a while the attention of every layer is answered by a function of ours, which puts in front of the tokens
either the whole prompt or a state that stands for it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attangent.adapters.call import AttentionCall
from attangent.adapters.layers import attention_layers
from attangent.attention import Prefix
from attangent.attention.backends.torch.portable import merged

_NAME = "attangent_compress"
_HANDLER = "attangent_handler"
_LOGITS = 1 << 20
_PREFILL = 512


Handler = Callable[[AttentionCall], Tensor]
"""Answers a call with the attention's output (B, H, L, dv)."""


@dataclass(frozen=True)
class PromptCache:
    """Keys and values (Hkv, m, d) of a prompt by layer, and the logits of the token behind it.

    start: the position of its first token; before: states, by layer, of what was read in front of it.
    """

    layers: Mapping[str, tuple[Tensor, Tensor]]
    logits: Tensor
    start: int = 0
    before: Mapping[str, Prefix] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """The position behind the prompt."""
        return self.start + next(iter(self.layers.values()))[0].shape[1]

    def beside(self, call: AttentionCall) -> tuple[Tensor, Tensor]:
        """Attention over the tokens and what stands before the prompt: output and logsumexp."""
        tokens, state = call.tokens(), self.before.get(call.layer)
        return tokens if state is None else merged(tokens, state_part(call, state))

    @property
    def number_of_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for pair in self.layers.values() for t in pair)


@contextmanager
def intercepted(model: Any, handler: Handler) -> Iterator[None]:
    """Let `handler` answer the attention of every layer of the model; everything is put back at the end."""
    _register()
    layers = attention_layers(model)
    configs: dict[int, Any] = {id(layer.module.config): layer.module.config for layer in layers}
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    before.append((model.config, model.config._attn_implementation_internal))
    for layer in layers:
        setattr(layer.module, _HANDLER, (layer.name, handler))
    for config, _ in before:
        config._attn_implementation_internal = _NAME
    try:
        yield
    finally:
        for config, implementation in reversed(before):
            config._attn_implementation_internal = implementation
        for layer in layers:
            delattr(layer.module, _HANDLER)


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_NAME, _handled)
    AttentionMaskInterface.register(_NAME, sdpa_mask)


def _handled(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    layer, handler = getattr(module, _HANDLER)
    call = AttentionCall.of(module, query, key, value, attention_mask, options, layer)
    return handler(call).transpose(1, 2).contiguous(), None


def prefill(
    model: Any,
    ids: Tensor,
    progress: Callable[[int], Any] = lambda done: None,
    *,
    start: int = 0,
    before: Mapping[str, Prefix] | None = None,
) -> PromptCache:
    """The keys and values of the prompt `ids` (m) in every layer, computed in chunks of tokens.

    They are read from the position `start` on, behind the states `before`.
    """
    from transformers import DynamicCache

    before = before or {}
    cache, logits, position = DynamicCache(), None, start
    behind = intercepted(model, _some_states(before)) if before else nullcontext()
    with torch.no_grad(), behind:
        for chunk in ids[None].to(model.device).split(_PREFILL, dim=1):
            places = position + torch.arange(chunk.shape[1], device=chunk.device)[None]
            options = {"past_key_values": cache, "position_ids": places}
            logits = model(chunk, use_cache=True, logits_to_keep=1, **options).logits[0, -1]
            position += chunk.shape[1]
            progress(chunk.shape[1])
    assert logits is not None
    pairs = [(layer.keys[0], layer.values[0]) for layer in cache.layers]  # type: ignore[index]
    names = [layer.name for layer in attention_layers(model)]
    return PromptCache(dict(zip(names, pairs, strict=True)), logits.float().cpu(), start, before)


def _some_states(states: Mapping[str, Prefix]) -> Handler:
    """Attention with a state in front of the tokens in the layers that have one."""

    def handle(call: AttentionCall) -> Tensor:
        state = states.get(call.layer)
        return call.tokens()[0].to(call.q.dtype) if state is None else call.with_prefix(state)

    return handle


def state_part(call: AttentionCall, state: Prefix) -> tuple[Tensor, Tensor]:
    """Attention of the call's queries over the virtual tokens of a state: output and logsumexp."""
    features: Any = state.features
    keys, (Z, mass) = features.keys, state.weights()
    q, masses = by_kv_head(call.q, len(keys)), mass.abs()
    logits = call.scores(q, keys) + masses.log().unsqueeze(1)
    out, lse = attended(logits, Z / torch.where(masses == 0, 1, masses).unsqueeze(-1))
    return by_sequence(out, call.q), by_sequence(lse, call.q).squeeze(-1)


def prompt_part(call: AttentionCall, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Attention of the call's queries over a prompt's keys (Hkv, m, d): output and logsumexp.

    At most `_LOGITS` logits exist at once.
    """
    q, at_once = by_kv_head(call.q, len(keys)), max(1, _LOGITS // (len(keys) * keys.shape[1]))
    parts = [attended(call.scores(part, keys), values) for part in q.split(at_once, dim=1)]
    out, lse = (torch.cat(kind, dim=1) for kind in zip(*parts, strict=True))
    return by_sequence(out, call.q), by_sequence(lse, call.q).squeeze(-1)


def attended(logits: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(logits) values (Hkv, n, dv) and the logsumexp (Hkv, n, 1), with one exponential for both."""
    top = logits.detach().amax(dim=-1, keepdim=True)
    parts = (logits - top).exp_()
    total = parts.sum(dim=-1, keepdim=True)
    return parts @ values / total, top + total.log()


def by_kv_head(q: Tensor, kv_heads: int) -> Tensor:
    """Queries (B, H, L, d) as (Hkv, n, d): all that look at the keys of one KV head, which exist once."""
    batch, heads, rows, dim = q.shape
    return q.reshape(batch, kv_heads, heads // kv_heads * rows, dim).transpose(0, 1).flatten(1, 2)


def by_sequence(x: Tensor, q: Tensor) -> Tensor:
    """What was found for `by_kv_head(q)`, (Hkv, n, c), as (B, H, L, c)."""
    batch, heads, rows, _ = q.shape
    return x.unflatten(1, (batch, -1)).transpose(0, 1).reshape(batch, heads, rows, -1)


def whole_prompt(cache: PromptCache) -> Handler:
    """Attention with the whole prompt in front of the tokens: exact."""

    def handle(call: AttentionCall) -> Tensor:
        return merged(cache.beside(call), prompt_part(call, *cache.layers[call.layer]))[0].to(call.q.dtype)

    return handle


def with_states(states: Mapping[str, Prefix]) -> Handler:
    """Attention with a state for each layer in front of the tokens; none where a layer has none."""
    return _some_states(states)


def run(
    model: Any,
    ids: Tensor,
    offset: int,
    handler: Handler | None,
    places: Tensor | None = None,
    **options: Any,
) -> Any:
    """The model's output on ids (B, L) whose first position is `offset`; the bare model's for no handler.

    places (B, L): where each token stands behind the offset, for rows of several sequences.
    """
    ids = ids.to(model.device)
    places = torch.arange(ids.shape[1])[None] if places is None else places
    positions = offset + places.to(ids.device)
    if handler is None:
        return model(ids, position_ids=positions, use_cache=False, **options)
    with intercepted(model, handler):
        return model(ids, position_ids=positions, use_cache=False, **options)
