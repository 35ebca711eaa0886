"""Lessons on a prompt, scores of its tokens by how much each head needs them, and the choice of the best.

If token j is removed from a head, the output o of a query moves by a_j (o - v_j), where a_j is the query's
attention to j. With g the gradient of the objective at the output, the objective moves by a_j g.(o - v_j).
The absolute value of that is the effect of the token on the query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attangent._core.errors import AttangentError
from attangent._core.progress import Advance, no_progress
from attangent.compression.capture import LayerEffects, Listener, Room, leaf_embeddings, run_packed
from attangent.compression.prompt_cache import Handler, PromptCache
from attangent.compression.text import SINKS, PackedText, Turn, sharing_rows

# Minimum width of a row: short turns share one.
WIDTH = 96
# Number of the teacher's most likely tokens per position; the tokens of all positions of a row are compared.
_LIKELIEST = 64
# Maximum number of effects in memory at a time.
_EFFECTS = 9 << 20
# Answers more certain than this count as certain: their gradients say nothing about the prompt.
_LARGEST_MARGIN = 8.0

# Scores (m) of the prompt's tokens, by layer and KV head.
Scores = Mapping[str, Tensor] | Mapping[str, Sequence[Tensor]]
# Indices of the tokens to keep, in order, by layer and KV head.
Chosen = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class LessonRow:
    """Several turns in one row.

    Attributes:
        text: The turns (1, L).
        counted: Positions (T) whose next token belongs to an answer. Questions are read, but their
            likelihood does not count.
    """

    text: PackedText
    counted: Int[Tensor, " T"]

    def logits(self, model: Any, offset: int, handler: Handler) -> Float[Tensor, "T vocabulary"]:
        """Return the logits at the positions that count."""
        # Logits of the whole vocabulary are the largest tensors here: compute only those that count.
        counted = self.counted.to(model.device)
        return run_packed(model, self.text, offset, handler, logits_to_keep=counted).logits[0]

    @property
    def answers(self) -> Int[Tensor, " T"]:
        """Return the token that follows each position that counts."""
        return self.text.ids[0, self.counted + 1]


def lesson_rows(turns: Sequence[Turn], width: int = WIDTH) -> list[LessonRow]:
    """Pack all turns that have an answer and at least two tokens.

    Args:
        turns: The turns.
        width: Maximum number of tokens per row, unless a single turn has more.

    Raises:
        AttangentError: If there is no such turn.
    """
    turns = [turn for turn in turns if len(turn.ids) > 1 and len(turn.answer)]
    if not turns:
        raise AttangentError("there is nothing to train on; pass at least one text of two tokens")
    lengths = [len(turn.ids) for turn in turns]
    rows = sharing_rows(lengths, max(width, *lengths))
    return [_row([turns[index] for index in row]) for row in rows]


def _row(turns: Sequence[Turn]) -> LessonRow:
    return LessonRow(PackedText.of([[turn.ids for turn in turns]]), torch.cat(list(_counted(turns))))


def _counted(turns: Sequence[Turn]) -> Iterator[Tensor]:
    start = 0
    for turn in turns:
        end = start + len(turn.ids)
        yield torch.arange(max(start, start + len(turn.asked) - 1), end - 1)
        start = end


@dataclass(frozen=True)
class Teacher:
    """The model's next-token distribution with the whole prompt, over the tokens that are likely in a row.

    Attributes:
        tokens: Tokens (K) that are among the most likely ones at some position.
        log_chances: Log probabilities (T, K) among these tokens.
    """

    tokens: Int[Tensor, " K"]
    log_chances: Float[Tensor, "T K"]

    @classmethod
    def of(cls, logits: Float[Tensor, "T vocabulary"]) -> "Teacher":
        """Keep the most likely tokens of these logits."""
        tokens = logits.topk(min(_LIKELIEST, logits.shape[-1]), dim=-1).indices.unique()
        return cls(tokens, logits[:, tokens].float().log_softmax(dim=-1))

    def divergence(self, logits: Float[Tensor, "T K"]) -> Float[Tensor, ""]:
        """Return the mean over positions of KL(teacher || student) from the student's logits of `tokens`."""
        student = logits.float().log_softmax(dim=-1)
        return (self.log_chances.exp() * (self.log_chances - student)).sum(dim=-1).mean()


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
    model: Any,
    cache: PromptCache,
    rows: Sequence[LessonRow],
    progress: Advance = no_progress,
    teachers: dict[int, Teacher] | None = None,
) -> TokenScores:
    """Score the prompt's tokens by the answers of turns, read after the whole prompt.

    Head sizes follow from these scores: the best tokens of all heads together are kept.

    Args:
        model: A causal language model.
        cache: The prompt.
        rows: Questions with their answers.
        progress: Called after every row.
        teachers: Gets the predictions with the whole prompt, by row, which training needs too.

    Returns:
        The largest attention and effect of each token in each layer and KV head.
    """
    scores = TokenScores({}, {})
    room = Room()
    for index, row in enumerate(rows):
        layers, teacher = layer_effects(model, cache, row, room)
        if teachers is not None:
            teachers[index] = teacher
        # Effects count relative to the sum of all effects on the same position, so that every token of an
        # answer has the same weight. The mean in the denominator damps positions at which the prompt does
        # little: their relative effects are noise.
        sums = torch.stack([effects.sums for effects in layers.values()]).sum(dim=0)
        weights = 1 / (sums + sums.mean().clamp(min=1e-12))
        for name, effects in layers.items():
            _keep_largest(scores.attention, name, effects.attention)
            _keep_largest(scores.effect, name, effects.largest_effects(weights))
        progress(1)
    return scores


def scored_width(cache: PromptCache) -> int:
    """Return how many tokens of text to read at a time: their effects in all layers exist together."""
    each = sum(keys.shape[0] * keys.shape[1] for keys, _ in cache.layers.values())
    return max(1, min(WIDTH, _EFFECTS // each))


def _keep_largest(largest: dict[str, Tensor], name: str, scores: Tensor) -> None:
    largest[name] = torch.maximum(largest[name], scores) if name in largest else scores


def layer_effects(
    model: Any, cache: PromptCache, row: LessonRow, room: Room | None = None
) -> tuple[Mapping[str, LayerEffects], Teacher]:
    """Return the effects of the prompt's tokens in every layer while a row is read, and its predictions."""
    listener = Listener(cache, room)
    with torch.enable_grad(), leaf_embeddings(model) as leaves:
        logits = row.logits(model, cache.length, listener)
        answers = row.answers.to(logits.device).unsqueeze(1)
        log_p = logits.float().log_softmax(dim=-1).gather(1, answers)
        torch.autograd.grad(margins(log_p).sum(), leaves)
    return listener.layers, Teacher.of(logits.detach())


def margins(log_p: Float[Tensor, "*tokens"]) -> Float[Tensor, "*tokens"]:
    """Return log(p / (1 - p)), bounded.

    Unlike log p, the margin and its gradient keep growing as an answer becomes certain.
    """
    log_p = log_p.clamp(max=-1e-5)
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
