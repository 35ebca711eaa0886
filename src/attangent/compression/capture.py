"""Run a model while a handler answers the attention of every layer, or records what the prompt does there."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.progress import Advance, no_progress
from attangent._core.random import generator
from attangent.adapters.call import AttentionCall
from attangent.adapters.layers import attention_layers
from attangent.attention import Prefix
from attangent.attention.backends.torch.portable import merged
from attangent.compression.prompt_cache import (
    Handler,
    PromptCache,
    prompt_part,
    whole_prompt,
    with_states,
)
from attangent.compression.text import LENGTH, PackedText

_NAME = "attangent_compress"
_HANDLER = "attangent_handler"
_PREFILL = 512
# Maximum number of effects computed at a time: few enough to stay in the processor's cache.
_CHUNK = 1 << 19


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


@contextmanager
def leaf_embeddings(model: Any) -> Iterator[list[Tensor]]:
    """Collect the embeddings read in this context as leaves.

    Gradients then flow through frozen weights without being computed for any of them.
    """
    leaves: list[Tensor] = []

    def collect(module: Any, inputs: Any, output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    hook = model.get_input_embeddings().register_forward_hook(collect)
    try:
        yield leaves
    finally:
        hook.remove()


class Room:
    """Reusable memory for large tensors: allocating it again takes longer than filling it."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def empty(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return an uninitialised tensor; it overwrites the previous one of this name."""
        size = math.prod(shape)
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = like.new_empty(size)
        return self._buffers[name][:size].view(*shape)


class Listener:
    """A handler that answers with exact attention and records its gradients in the backward pass."""

    def __init__(self, cache: PromptCache, room: Room | None = None):
        self.cache = cache
        self.room = room or Room()
        self.layers: dict[str, LayerEffects] = {}

    def __call__(self, call: AttentionCall) -> Tensor:
        # Half precision would round the small effects away, and its products do not mix with logsumexps.
        exact = torch.promote_types(call.q.dtype, torch.float32)
        keys, values = self.cache.layers[call.layer]
        effects = LayerEffects(call, keys.to(exact), values.to(exact), self.room)
        self.layers[call.layer] = effects
        output, lse = self.cache.without_prompt(call)
        inputs = (call.q.to(exact), output.to(exact), lse.to(exact))
        return _Attention.apply(*inputs, effects).to(call.q.dtype)  # type: ignore[return-value]


class _Attention(torch.autograd.Function):
    """Merge attention to a prompt with attention to the rest, given as output and logsumexp.

    With p_ij the attention of query i to token j of the prompt, o_i its output and g_i the gradient there,
    the gradient in the logit of i and j is p_ij g_i.(v_j - o_i). Autograd would build that matrix too, but
    discard it; its absolute value is the effect of j on i.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, rest: Tensor, lse: Tensor, effects: "LayerEffects") -> Tensor:
        prompt = prompt_part(effects.call._replace(q=q), effects.keys, effects.values)
        output, total = merged((rest, lse), prompt)
        ctx.save_for_backward(q, rest, lse, output, total)
        ctx.effects = effects
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        q, rest, lse, output, total = ctx.saved_tensors
        # d output / d rest = share, and d output / d lse = share (rest - output).
        share = (lse - total).exp().unsqueeze(-1)
        of_lse = share * (gradient * (rest - output)).sum(dim=-1, keepdim=True)
        return ctx.effects.record(q, gradient, output, total), gradient * share, of_lse.squeeze(-1), None


class LayerEffects:
    """Attention to the prompt and effects of its tokens in one layer.

    Attributes:
        attention: Largest attention (Hkv, m) of any query to each token.
        effects: Largest effect (Hkv, B, L, m) of each token on the queries of a KV head, by position.
        sums: Sum (B, L) of the effects of all tokens on all queries, by position.
    """

    attention: Tensor
    effects: Tensor
    sums: Tensor

    def __init__(
        self,
        call: AttentionCall,
        keys: Float[Tensor, "kv_heads m d"],
        values: Float[Tensor, "kv_heads m dv"],
        room: Room | None = None,
    ):
        self.call = call
        self.keys = keys
        self.values = values
        self.room = room or Room()

    def record(self, q: Tensor, gradient: Tensor, output: Tensor, total: Tensor) -> Tensor:
        """Record effects and attention; return the gradient in the queries through the prompt's logits."""
        batch, heads, length, _ = q.shape
        kv_heads, tokens, _ = self.keys.shape
        group = heads // kv_heads
        of_output = (gradient * output).sum(dim=-1, keepdim=True)
        of_queries = torch.empty_like(q)
        self.attention = q.new_zeros(kv_heads, tokens)
        self.sums = q.new_zeros(batch, length)
        self.effects = self.room.empty(self.call.layer, (kv_heads, batch, length, tokens), q)
        # All queries of a KV head at some positions of a row, few enough to stay in the processor's cache.
        at_once = max(1, _CHUNK // (tokens * group))
        for head, row in product(range(kv_heads), range(batch)):
            of_head = slice(head * group, (head + 1) * group)
            for start in range(0, length, at_once):
                some = slice(start, start + at_once)
                queries = [x[row, of_head, some] for x in (q, gradient, of_output, total.unsqueeze(-1))]
                of_queries[row, of_head, some], effects = self._chunk(head, *queries)
                self.sums[row, some] += effects.sum(dim=(0, 2))
                torch.amax(effects, dim=0, out=self.effects[head, row, some])
        return of_queries

    def _chunk(
        self, head: int, q: Tensor, gradient: Tensor, of_output: Tensor, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradient in some queries (group, n, d) of a KV head and the effects (group, n, m).

        `of_output` holds g.o and `total` the logsumexp (group, n, 1).
        """
        softcap = self.call.softcap
        logits = self.call.scores(q, self.keys[head])
        # d(softcap tanh(x / softcap)) / dx = 1 - (logit / softcap)^2, taken before the logits are overwritten
        bent = None if softcap is None else 1 - (logits / softcap).square()
        paid = logits.sub_(total).exp_()
        torch.maximum(self.attention[head], paid.amax(dim=(0, 1)), out=self.attention[head])
        slopes = (gradient @ self.values[head].mT).sub_(of_output).mul_(paid)
        of_queries = (slopes if bent is None else slopes * bent) @ self.keys[head] * self.call.scale
        return of_queries, slopes.abs_()

    def largest_effects(self, weights: Float[Tensor, "batch length"]) -> Float[Tensor, "kv_heads m"]:
        """Return the largest weighted effect of each token on any query."""
        largest = [(effects * weights.unsqueeze(-1)).amax(dim=(0, 1)) for effects in self.effects]
        return torch.stack(largest)
