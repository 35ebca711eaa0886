"""Effects of a prompt's tokens in one layer, head by head, to first order.

If token j is removed from a head, the output o of a query moves by a_j (o - v_j), where a_j is the query's
attention to j. With g the gradient of the objective at the output, the objective moves by a_j g.(o - v_j).
The absolute value of that is the effect of the token on the query.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention.backends.torch.portable import merged
from attangent.compression.prompt_cache import PromptCache, by_kv_head, by_sequence, prompt_part

# Maximum number of logits computed at a time: few enough to stay in the processor's cache.
_CHUNK = 1 << 19


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


class Listener:
    """A handler that answers with exact attention and records its gradients in the backward pass."""

    def __init__(self, cache: PromptCache, valid: Tensor, room: Room | None = None):
        self.cache = cache
        self.valid = valid
        self.room = room or Room()
        self.layers: dict[str, LayerEffects] = {}

    def __call__(self, call: AttentionCall) -> Tensor:
        effects = LayerEffects(call, *self.cache.layers[call.layer], self.valid, self.room)
        self.layers[call.layer] = effects
        output, lse = self.cache.without_prompt(call)
        return _Attention.apply(call.q, output, lse, effects).to(call.q.dtype)  # type: ignore[return-value]


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
        effects: Effects (Hkv, B, H / Hkv, L, m) of the tokens on every query.
        sums: Sum (B, L) of all effects on each position.
    """

    attention: Tensor
    effects: Tensor
    sums: Tensor

    def __init__(
        self,
        call: AttentionCall,
        keys: Float[Tensor, "kv_heads m d"],
        values: Float[Tensor, "kv_heads m dv"],
        valid: Tensor,
        room: Room | None = None,
    ):
        self.call = call
        self.keys = keys
        self.values = values
        self.valid = valid
        self.room = room or Room()

    def record(self, q: Tensor, gradient: Tensor, output: Tensor, total: Tensor) -> Tensor:
        """Record effects and attention; return the gradient in the queries through the prompt's logits."""
        batch, heads, rows, _ = q.shape
        kv_heads, tokens, _ = self.keys.shape
        # An infinite logsumexp gives padding no attention, so it has no effects and no gradient.
        hidden = total.masked_fill(~self.valid.to(total.device)[:, None], torch.inf).unsqueeze(-1)
        of_output = (gradient * output).sum(dim=-1, keepdim=True)
        grouped = [by_kv_head(x, kv_heads) for x in (q, gradient, of_output, hidden)]
        effects = self.room.empty(self.call.layer, (kv_heads, grouped[0].shape[1], tokens), q)
        self.attention = q.new_zeros(kv_heads, tokens)
        of_queries = torch.empty_like(grouped[0])
        sums = torch.empty_like(grouped[2])
        for head in range(kv_heads):
            for some in _slices(len(of_queries[head]), tokens):
                queries = [x[head, some] for x in grouped]
                of_queries[head, some] = self._record_chunk(head, queries, effects[head, some])
                sums[head, some] = effects[head, some].sum(dim=1, keepdim=True)
        self.effects = effects.view(kv_heads, batch, heads // kv_heads, rows, tokens)
        self.sums = by_sequence(sums, q).sum(dim=(1, 3))
        return by_sequence(of_queries, q)

    def _record_chunk(self, head: int, queries: Sequence[Tensor], effects: Tensor) -> Tensor:
        """Write the effects (n, m) on some queries of a KV head; return the gradient in them (n, d).

        `queries` holds q and g (n, d), g.o and the logsumexp (n, 1).
        """
        q, g, of_output, total = queries
        softcap = self.call.softcap
        logits = self.call.scores(q, self.keys[head])
        # d(softcap tanh(x / softcap)) / dx = 1 - (logit / softcap)^2, taken before the logits are overwritten
        bent = None if softcap is None else 1 - (logits / softcap).square()
        paid = logits.sub_(total).exp_()
        torch.maximum(self.attention[head], paid.amax(dim=0), out=self.attention[head])
        slopes = (g @ self.values[head].mT).sub_(of_output).mul_(paid)
        torch.abs(slopes, out=effects)
        if bent is not None:
            slopes *= bent
        return slopes @ self.keys[head] * self.call.scale

    def largest_effects(self, weights: Float[Tensor, "batch length"]) -> Float[Tensor, "kv_heads m"]:
        """Return the largest weighted effect of each token on any query."""
        kv_heads, batch, group, rows, tokens = self.effects.shape
        by_query = weights.unsqueeze(1).expand(batch, group, rows).reshape(-1, 1)
        largest = self.effects.new_zeros(kv_heads, tokens)
        for head, effects in zip(largest, self.effects.flatten(1, 3), strict=True):
            for some in _slices(len(by_query), tokens):
                torch.maximum(head, (effects[some] * by_query[some]).amax(dim=0), out=head)
        return largest


def _slices(rows: int, tokens: int) -> Iterator[slice]:
    each = max(1, _CHUNK // tokens)
    return (slice(start, start + each) for start in range(0, rows, each))
