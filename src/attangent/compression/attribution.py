"""Scores of a prompt's tokens: how much each head needs them, and the choice of the best.

If token j is removed from a head, the output o of a query moves by a_j (o - v_j), where a_j is the query's
attention to j. With g the gradient of the objective at the output, the objective moves by a_j g.(o - v_j).
The absolute value of that is the effect of the token on the query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attangent._core.progress import Advance, no_progress
from attangent.compression.capture import LayerEffects, Listener, Room, leaf_embeddings, run
from attangent.compression.prompt_cache import PromptCache
from attangent.compression.text import SINKS, Calibration, Turn

# Maximum number of tokens of text read at a time.
_AT_ONCE = 192
# Maximum number of effects in memory at a time, per query head of a KV head.
_EFFECTS = 3 << 21
# Answers more certain than this count as certain: their gradients say nothing about the prompt.
_LARGEST_MARGIN = 8.0

# Scores (m) of the prompt's tokens, by layer and KV head.
Scores = Mapping[str, Tensor] | Mapping[str, Sequence[Tensor]]
# Indices of the tokens to keep, in order, by layer and KV head.
Chosen = Mapping[str, Sequence[Tensor]]


@dataclass
class TokenScores:
    """Scores (Hkv, m) by layer.

    Attributes:
        attention: Largest attention of any query to each token.
        effect: Largest effect of each token on any query.
    """

    attention: dict[str, Tensor]
    effect: dict[str, Tensor]

    def together(self) -> dict[str, Tensor]:
        """Return the product: high for tokens that are attended to and whose removal changes the answer."""
        return {name: attention * self.effect[name] for name, attention in self.attention.items()}


def token_scores(
    model: Any, cache: PromptCache, turns: Sequence[Turn], progress: Advance = no_progress
) -> TokenScores:
    """Score the prompt's tokens by the answers of `turns`, read after the whole prompt.

    Head sizes follow from these scores: the best tokens of all heads together are kept.

    Args:
        model: A causal language model.
        cache: The prompt.
        turns: Questions with their answers.
        progress: Called with the number of turns just read.

    Returns:
        The largest attention and effect of each token in each layer and KV head.
    """
    scores = TokenScores({}, {})
    room = Room()
    for group in _groups(turns, _at_once(cache)):
        text = Calibration.of([turn.ids for turn in group])
        layers = layer_effects(model, cache, text, [len(turn.asked) for turn in group], room)
        # Effects count relative to the sum of all effects on the same position, so that every token of an
        # answer has the same weight. The mean in the denominator damps positions at which the prompt does
        # little: their relative effects are noise.
        sums = torch.stack([effects.sums for effects in layers.values()]).sum(dim=0)
        weights = 1 / (sums + sums[text.valid].mean().clamp(min=1e-12))
        for name, effects in layers.items():
            _keep_largest(scores.attention, name, effects.attention)
            _keep_largest(scores.effect, name, effects.largest_effects(weights))
        progress(len(group))
    return scores


def _at_once(cache: PromptCache) -> int:
    """Return how many tokens of text to read at a time: their effects in all layers exist together."""
    each = sum(keys.shape[0] * keys.shape[1] for keys, _ in cache.layers.values())
    return max(1, min(_AT_ONCE, _EFFECTS // each))


def _keep_largest(largest: dict[str, Tensor], name: str, scores: Tensor) -> None:
    largest[name] = torch.maximum(largest[name], scores) if name in largest else scores


def _groups(turns: Sequence[Turn], at_once: int) -> Iterator[list[Turn]]:
    """Group turns of similar length, the longest first, with at most `at_once` tokens per group."""
    group: list[Turn] = []
    for turn in sorted(turns, key=lambda turn: len(turn.ids), reverse=True):
        if group and len(group[0].ids) * (len(group) + 1) > at_once:
            yield group
            group = []
        group.append(turn)
    if group:
        yield group


def layer_effects(
    model: Any, cache: PromptCache, text: Calibration, asked: Sequence[int], room: Room | None = None
) -> Mapping[str, LayerEffects]:
    """Return the effects of the prompt's tokens in every layer while the text is read.

    `asked` has the number of tokens of each sequence that belong to its question.
    """
    listener = Listener(cache, text.valid, room)
    # Logits of the questions are never used; not computing them saves most of the output layer.
    first = max(0, min(asked) - 1)
    with torch.enable_grad(), leaf_embeddings(model) as leaves:
        spoken = text.ids.shape[1] - first
        logits = run(model, text.ids, cache.length, listener, logits_to_keep=spoken).logits
        answered = text.valid & (torch.arange(text.ids.shape[1]) >= torch.tensor(asked).unsqueeze(1))
        ids = text.ids[:, first:].to(logits.device)
        torch.autograd.grad(margins(logits, ids, answered[:, first:]).sum(), leaves)
    return listener.layers


def margins(
    logits: Float[Tensor, "batch length vocabulary"],
    ids: Int[Tensor, "batch length"],
    counted: Bool[Tensor, "batch length"],
) -> Float[Tensor, " tokens"]:
    """Return log(p / (1 - p)) of the `counted` tokens, with p from the logits of the token before.

    Unlike log p, the margin and its gradient keep growing as an answer becomes certain.
    """
    predicted = counted[:, 1:].to(logits.device)
    # Selecting before the softmax avoids probabilities of the whole vocabulary at every position.
    chances = logits[:, :-1][predicted].float().log_softmax(dim=-1)
    log_p = chances.gather(1, ids[:, 1:][predicted].unsqueeze(1)).squeeze(1).clamp(max=-1e-5)
    return (log_p - torch.log(-torch.expm1(log_p))).clamp(-_LARGEST_MARGIN, _LARGEST_MARGIN)


def best_tokens(scores: Scores, size: int) -> dict[str, list[Tensor]]:
    """Choose the `size` x heads best tokens of all layers and heads together, and always the first ones.

    Heads that look up facts thus get many tokens and heads that read the last few get hardly any, as in
    KVzip (arXiv 2505.23416).
    """
    heads = [head.float().cpu() for layer in scores.values() for head in layer]
    together = pad_sequence(heads, batch_first=True, padding_value=-torch.inf)
    # Softmax needs somewhere to put attention that no token deserves: the first tokens serve as that sink.
    together[:, :SINKS] = torch.inf
    count = min(size * len(heads), sum(map(len, heads)))
    chosen = torch.zeros(together.numel(), dtype=torch.bool)
    chosen[together.flatten().topk(count).indices] = True
    indices = iter([row.nonzero()[:, 0] for row in chosen.view(together.shape)])
    return {name: [next(indices) for _ in layer] for name, layer in scores.items()}


def best_of_each_head(scores: Scores, size: int) -> dict[str, list[Tensor]]:
    """Choose the `size` best tokens of every head, and always the first ones."""

    def best(head: Tensor) -> Tensor:
        ranked = head.float().cpu().clone()
        ranked[:SINKS] = torch.inf
        return ranked.topk(min(size, len(ranked))).indices.sort().values

    return {name: [best(head) for head in layer] for name, layer in scores.items()}
