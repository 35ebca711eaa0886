"""Run a model while a handler answers the attention of every layer; read a prompt; sample texts after it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.progress import Advance, no_progress
from attangent._core.random import generator
from attangent.adapters.call import AttentionCall
from attangent.adapters.layers import attention_layers
from attangent.attention import Prefix
from attangent.compression.prompt_cache import (
    Handler,
    PromptCache,
    whole_prompt,
    with_states,
)
from attangent.compression.text import LENGTH, PackedText

_NAME = "attangent_compress"
_HANDLER = "attangent_handler"
_PREFILL = 512


@contextmanager
def intercepted(model: Any, handler: Handler | None) -> Iterator[None]:
    """Let `handler` answer the attention of every layer until the context ends; None changes nothing."""
    if handler is None:
        yield
        return
    _register()
    layers = attention_layers(model)
    configs: dict[int, Any] = {id(layer.module.config): layer.module.config for layer in layers}
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    before.append((model.config, model.config._attn_implementation_internal))
    for layer in layers:
        setattr(layer.module, _HANDLER, (layer.name, handler))
    # The public setter would reload kernels and check what the model supports; only the name is needed.
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


def run(model: Any, ids: Tensor, offset: int, handler: Handler | None, **options: Any) -> Any:
    """Return the model's output on ids (B, L) that start at position `offset`."""
    positions = torch.arange(ids.shape[1])[None]
    return _run(model, ids, offset + positions, handler, options)


def run_packed(model: Any, text: PackedText, offset: int, handler: Handler, **options: Any) -> Any:
    """Return the model's output on rows of several sequences, none of which sees another."""
    seen = text.seen

    def handle(call: AttentionCall) -> Tensor:
        return handler(call.within(seen))

    return _run(model, text.ids, offset + text.positions, handle, options)


def _run(model: Any, ids: Tensor, positions: Tensor, handler: Handler | None, options: dict[str, Any]) -> Any:
    ids = ids.to(model.device)
    with intercepted(model, handler):
        return model(ids, position_ids=positions.to(ids.device), use_cache=False, **options)


def prefill(
    model: Any,
    ids: Tensor,
    progress: Advance = no_progress,
    *,
    start: int = 0,
    before: Mapping[str, Prefix] | None = None,
) -> PromptCache:
    """Read a prompt and return its keys and values in every layer.

    Args:
        model: A causal language model.
        ids: Tokens (m) of the prompt.
        progress: Called with the number of tokens just read.
        start: Position of the first token.
        before: States, by layer, that stand before the prompt.
    """
    from transformers import DynamicCache

    before = before or {}
    cache = DynamicCache()
    logits = None
    # Chunks bound the memory of attention and let the progress advance.
    position = start
    with torch.no_grad(), intercepted(model, with_states(before) if before else None):
        for chunk in ids[None].to(model.device).split(_PREFILL, dim=1):
            positions = position + torch.arange(chunk.shape[1], device=chunk.device)[None]
            options = {"past_key_values": cache, "position_ids": positions}
            logits = model(chunk, use_cache=True, logits_to_keep=1, **options).logits[0, -1]
            position += chunk.shape[1]
            progress(chunk.shape[1])
    assert logits is not None
    pairs = [(layer.keys[0], layer.values[0]) for layer in cache.layers]  # type: ignore[index]
    names = [layer.name for layer in attention_layers(model)]
    return PromptCache(dict(zip(names, pairs, strict=True)), logits.float().cpu(), start, before)


def sample(
    model: Any,
    cache: PromptCache,
    opening: Tensor,
    counts: Mapping[str, int],
    seed: int,
    *,
    length: int = LENGTH,
    temperature: float = 1.0,
    progress: Advance = no_progress,
) -> dict[str, Tensor]:
    """Draw texts (count, length) that the model writes after the prompt, each beginning with `opening`.

    Args:
        model: A causal language model.
        cache: The prompt.
        opening: First tokens of every text.
        counts: Number of texts per random stream. All are written in one batch.
        seed: Seed of the streams.
        length: Tokens per text, the opening included.
        temperature: Divides the logits.
        progress: Called after every token.
    """
    from transformers import DynamicCache

    draws = {stream: generator(seed, stream) for stream in counts}
    local = DynamicCache()
    ids = opening.expand(sum(counts.values()), -1)
    logits = cache.logits.expand(len(ids), -1)
    with torch.no_grad(), intercepted(model, whole_prompt(cache)):
        if len(opening):
            logits = _next_logits(model, ids, local, cache.length)
        while ids.shape[1] < length:
            parts = zip((logits / temperature).split(list(counts.values())), draws.values(), strict=True)
            drawn = torch.cat([_drawn(part, draw) for part, draw in parts])
            ids = torch.cat([ids, drawn], dim=1)
            progress(1)
            if ids.shape[1] < length:
                logits = _next_logits(model, drawn, local, cache.length + ids.shape[1] - 1)
    return dict(zip(counts, ids.split(list(counts.values())), strict=True))


def _drawn(logits: Tensor, draw: torch.Generator) -> Tensor:
    """Draw one token (n, 1) per row of logits (n, vocabulary) by inverting the distribution function.

    One random number per row keeps a stream's texts independent of the vocabulary's size.
    """
    sums = logits.softmax(dim=-1).double().cumsum(dim=-1)
    levels = torch.rand(len(logits), 1, generator=draw, dtype=sums.dtype) * sums[:, -1:]
    return torch.searchsorted(sums, levels, right=True).clamp(max=logits.shape[1] - 1)


def _next_logits(model: Any, ids: Tensor, local: Any, position: int) -> Tensor:
    positions = position + torch.arange(ids.shape[1], device=model.device)[None]
    ids = ids.to(model.device)
    out = model(ids, past_key_values=local, use_cache=True, position_ids=positions, logits_to_keep=1)
    return out.logits[:, -1].float().cpu()
