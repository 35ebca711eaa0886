"""What each token of a prompt does, head by head, to what the model says behind it; to first order.

Take token j from a head at one query: its output o moves by a_j (o - v_j), with a_j the attention that the
query pays to j. With g the gradient of the margins log(p / (1 - p)) of the tokens that are said, these move
by a_j g.(o - v_j). The size of that is the token's effect there.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention.backends.torch.portable import merged
from attangent.compression.capture import PromptCache, by_kv_head, by_sequence, prompt_part, run
from attangent.compression.text import Calibration, Turn

_AT_ONCE = 384
"""The most tokens of the text that are read at once."""
_EFFECTS = 1 << 26
"""The most effects that exist at once, for one query head of each KV head."""
_CHUNK = 1 << 19
_LARGEST_MARGIN = 8.0
"""What is said more surely than this counts as said whatever happens."""


@dataclass
class TokenScores:
    """By layer (Hkv, m): the largest attention that any query pays to a token, and its largest effect."""

    attention: dict[str, Tensor]
    effect: dict[str, Tensor]

    def together(self) -> dict[str, Tensor]:
        """Both, multiplied: tokens that are looked at, where looking at them changes what is said."""
        return {name: attention * self.effect[name] for name, attention in self.attention.items()}


def token_scores(
    model: Any,
    cache: PromptCache,
    turns: Sequence[Turn],
    progress: Callable[[int], Any] = lambda done: None,
) -> TokenScores:
    """Scores of the prompt's tokens by the answers of `turns`, read behind the whole prompt.

    Effects are parts of the sum of all effects at the same query, so that each token that is said counts as
    much as any other; where the prompt does less than usual they are smaller.
    """
    found, room = TokenScores({}, {}), Room()
    for some in _groups(turns, _at_once(cache)):
        text = Calibration.of([turn.ids for turn in some])
        heard = heard_layers(model, cache, text, [len(turn.asked) for turn in some], room)
        sums = torch.stack([one.sums for one in heard.values()]).sum(dim=0)
        parts = 1 / (sums + sums[text.valid].mean().clamp(min=1e-12))
        for name, one in heard.items():
            _note(found.attention, name, one.attention)
            _note(found.effect, name, one.largest_effects(parts))
        progress(len(some))
    return found


def _at_once(cache: PromptCache) -> int:
    """How many tokens of text are read at once: all their effects on this prompt exist together."""
    each = sum(keys.shape[0] * keys.shape[1] for keys, _ in cache.layers.values())
    return max(1, min(_AT_ONCE, _EFFECTS // each))


def _note(largest: dict[str, Tensor], name: str, scores: Tensor) -> None:
    largest[name] = torch.maximum(largest[name], scores) if name in largest else scores


def _groups(turns: Sequence[Turn], at_once: int) -> Iterator[list[Turn]]:
    """Turns of like length, the longest first, so many together that there are at most so many tokens."""
    group: list[Turn] = []
    for turn in sorted(turns, key=lambda turn: len(turn.ids), reverse=True):
        if group and len(group[0].ids) * (len(group) + 1) > at_once:
            yield group
            group = []
        group.append(turn)
    if group:
        yield group


class Room:
    """Memory for large tensors that is used again for the next ones: to get it anew takes longer than to
    fill it."""

    def __init__(self) -> None:
        self._parts: dict[str, Tensor] = {}

    def empty(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """A tensor whose numbers are not set; what was had by this name before is no longer valid."""
        size = math.prod(shape)
        if name not in self._parts or self._parts[name].numel() < size:
            self._parts[name] = like.new_empty(size)
        return self._parts[name][:size].view(*shape)


def heard_layers(
    model: Any, cache: PromptCache, text: Calibration, asked: Sequence[int], room: Room | None = None
) -> Mapping[str, "HeardLayer"]:
    """Attention to the prompt and effects of its tokens in every layer while the text is read."""
    listener = _Listener(cache, text.valid, room or Room())
    first = max(0, min(asked) - 1)
    with torch.enable_grad(), _leaf_embeddings(model) as leaves:
        spoken = text.ids.shape[1] - first
        logits = run(model, text.ids, cache.length, listener, logits_to_keep=spoken).logits
        counted, ids = _counted(text.valid, asked)[:, first:], text.ids[:, first:].to(logits.device)
        torch.autograd.grad(margins(logits, ids, counted).sum(), leaves)
    return listener.layers


@contextmanager
def _leaf_embeddings(model: Any) -> Iterator[list[Tensor]]:
    """Embeddings that are read meanwhile are put into the list; gradients end there."""
    leaves: list[Tensor] = []

    def note(module: Any, given: Any, output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    hook = model.get_input_embeddings().register_forward_hook(note)
    try:
        yield leaves
    finally:
        hook.remove()


def margins(logits: Tensor, ids: Tensor, counted: Tensor) -> Tensor:
    """log(p / (1 - p)) of the tokens (B, L) that are `counted`, each by the logits of the one before."""
    places = counted[:, 1:].to(logits.device)
    chances = logits[:, :-1][places].float().log_softmax(dim=-1)
    log_p = chances.gather(1, ids[:, 1:][places].unsqueeze(1)).squeeze(1).clamp(max=-1e-5)
    return (log_p - torch.log(-torch.expm1(log_p))).clamp(-_LARGEST_MARGIN, _LARGEST_MARGIN)


def _counted(valid: Tensor, asked: Sequence[int]) -> Tensor:
    """Which tokens (B, L) are part of an answer."""
    return valid & (torch.arange(valid.shape[1]) >= torch.tensor(asked).unsqueeze(1))


class _Listener:
    """Answers with the exact attention, and listens to its gradients on their way back."""

    def __init__(self, cache: PromptCache, valid: Tensor, room: Room):
        self.cache, self.valid, self.room = cache, valid, room
        self.layers: dict[str, HeardLayer] = {}

    def __call__(self, call: AttentionCall) -> Tensor:
        heard = HeardLayer(call, *self.cache.layers[call.layer], self.valid, self.room)
        self.layers[call.layer] = heard
        output, lse = self.cache.beside(call)
        return _Attention.apply(call.q, output, lse, heard).to(call.q.dtype)  # type: ignore[return-value]


class _Attention(torch.autograd.Function):
    """Attention over a prompt and what stands beside it, by queries and the output and logsumexp beside.

    With p_ij the attention that query i pays to token j of the prompt, o_i its output and g_i the gradient
    there, the gradient in the logit of i and j is p_ij g_i.(v_j - o_i): its size is the effect of j on i.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, beside: Tensor, lse: Tensor, heard: "HeardLayer") -> Tensor:
        part = prompt_part(heard.call._replace(q=q), heard.keys, heard.values)
        output, total = merged((beside, lse), part)
        ctx.save_for_backward(q, beside, lse, output, total)
        ctx.heard = heard
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        q, beside, lse, output, total = ctx.saved_tensors
        share = (lse - total).exp().unsqueeze(-1)
        of_lse = share * (gradient * (beside - output)).sum(dim=-1, keepdim=True)
        return ctx.heard.listen(q, gradient, output, total), gradient * share, of_lse.squeeze(-1), None


class HeardLayer:
    """What is heard of one layer: `attention` (Hkv, m), the largest that any query pays to each token,
    `effects` (Hkv, B, query heads of each, L, m) of the tokens on every query, and their `sums` (B, L)."""

    attention: Tensor
    effects: Tensor
    sums: Tensor

    def __init__(
        self, call: AttentionCall, keys: Tensor, values: Tensor, valid: Tensor, room: Room | None = None
    ):
        self.call, self.keys, self.values, self.valid = call, keys, values, valid
        self.room = room or Room()

    def listen(self, q: Tensor, gradient: Tensor, output: Tensor, total: Tensor) -> Tensor:
        """Note effects and attention; returns the gradient in the queries, by way of the prompt's logits."""
        batch, heads, rows, _ = q.shape
        kv_heads, tokens, _ = self.keys.shape
        hidden = total.masked_fill(~self.valid.to(total.device)[:, None], torch.inf).unsqueeze(-1)
        alone = (gradient * output).sum(dim=-1, keepdim=True)
        grouped = [by_kv_head(x, kv_heads) for x in (q, gradient, alone, hidden)]
        effects = self.room.empty(self.call.layer, (kv_heads, grouped[0].shape[1], tokens), q)
        self.attention = q.new_zeros(kv_heads, tokens)
        of_queries, sums = torch.empty_like(grouped[0]), torch.empty_like(grouped[2])
        for head in range(kv_heads):
            for some in _slices(len(of_queries[head]), tokens):
                own = [x[head, some] for x in grouped]
                of_queries[head, some] = self._part(head, own, effects[head, some])
                sums[head, some] = effects[head, some].sum(dim=1, keepdim=True)
        self.effects = effects.view(kv_heads, batch, heads // kv_heads, rows, tokens)
        self.sums = by_sequence(sums, q).sum(dim=(1, 3))
        return by_sequence(of_queries, q)

    def largest_effects(self, parts: Tensor) -> Tensor:
        """(Hkv, m): the largest effect of each token, those on a query counted by its part (B, L)."""
        kv_heads, batch, group, rows, tokens = self.effects.shape
        weights = parts.unsqueeze(1).expand(batch, group, rows).reshape(-1, 1)
        found = self.effects.new_zeros(kv_heads, tokens)
        for head, effects in zip(found, self.effects.flatten(1, 3), strict=True):
            for some in _slices(len(weights), tokens):
                torch.maximum(head, (effects[some] * weights[some]).amax(dim=0), out=head)
        return found

    def _part(self, head: int, queries: Sequence[Tensor], effects: Tensor) -> Tensor:
        """For some queries of a KV head: write effects (n, m), return the gradient in the queries (n, d).

        Of the queries are given q and g (n, d), g.o and the logsumexp (n, 1).
        """
        q, g, alone, total = queries
        logits, scale, softcap = self.call.scores(q, self.keys[head]), self.call.scale, self.call.softcap
        bent = None if softcap is None else 1 - (logits / softcap).square()
        paid = logits.sub_(total).exp_()
        torch.maximum(self.attention[head], paid.amax(dim=0), out=self.attention[head])
        slopes = (g @ self.values[head].mT).sub_(alone).mul_(paid)
        torch.abs(slopes, out=effects)
        if bent is not None:
            slopes *= bent
        return slopes @ self.keys[head] * scale


def _slices(rows: int, tokens: int) -> Iterator[slice]:
    """Rows in parts of at most `_CHUNK` numbers, which stay near the processor."""
    each = max(1, _CHUNK // tokens)
    return (slice(start, start + each) for start in range(0, rows, each))
