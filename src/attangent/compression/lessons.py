"""Rows of turns that score tokens and train states, and the predictions with the full prompt on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.compression.capture import run_packed
from attangent.compression.prompt_cache import Handler
from attangent.compression.text import PackedText, Turn, sharing_rows

# Minimum width of a row: short turns share one.
WIDTH = 96
# Number of the teacher's most likely tokens that count one by one; all others count as one.
_LIKELIEST = 256


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
    """The model's next-token distribution with the whole prompt.

    Attributes:
        tokens: Most likely tokens (T, 256).
        log_chances: Their log probabilities (T, 256).
        log_rest: Log probability (T) of all others together.
    """

    tokens: Int[Tensor, "T top"]
    log_chances: Float[Tensor, "T top"]
    log_rest: Float[Tensor, " T"]

    @classmethod
    def of(cls, logits: Float[Tensor, "T vocabulary"]) -> "Teacher":
        """Keep the most likely tokens of these logits."""
        log_chances = logits.float().log_softmax(dim=-1)
        top = log_chances.topk(min(_LIKELIEST, log_chances.shape[-1]), dim=-1)
        return cls(top.indices, top.values, _log_rest(top.values))

    def divergence(self, logits: Float[Tensor, "T vocabulary"]) -> Float[Tensor, ""]:
        """Return the mean over positions of KL(teacher || student)."""
        student = logits.float().log_softmax(dim=-1).gather(-1, self.tokens)
        top = (self.log_chances.exp() * (self.log_chances - student)).sum(dim=-1)
        rest = self.log_rest.exp() * (self.log_rest - _log_rest(student))
        return (top + rest).mean()


def _log_rest(log_chances: Tensor) -> Tensor:
    """Return log(1 - sum of probabilities), bounded below so that gradients stay finite."""
    return torch.log1p(-log_chances.exp().sum(dim=-1).clamp(max=1 - 1e-6))
