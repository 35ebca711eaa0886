"""Text that virtual tokens are trained on: turns whose answers should be said as behind the whole prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.adapters.call import AttentionCall
from attangent.compression.capture import Handler, run
from attangent.compression.text import PackedText, Turn, sharing_rows

_WIDTH = 96
"""Tokens of a row at least, where there are so many: short turns share one."""


@dataclass(frozen=True)
class Lessons:
    """Turns in rows, several in one where they are short; `counted` (B, L): whether the next token is part of
    an answer. What is asked is read, but it does not count how likely it is."""

    text: PackedText
    counted: Tensor

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> "Lessons":
        """All turns whose answers can be learnt: those with two tokens or more and an answer."""
        turns = [turn for turn in turns if len(turn.ids) > 1 and len(turn.answer)]
        if not turns:
            raise AttangentError("there is nothing to train on, expected at least one text of two tokens")
        lengths = [len(turn.ids) for turn in turns]
        rows = [[turns[i] for i in row] for row in sharing_rows(lengths, max(_WIDTH, *lengths))]
        text = PackedText.of([[turn.ids for turn in row] for row in rows])
        marks = [torch.cat([_counted(turn) for turn in row]) for row in rows]
        return cls(text, torch.nn.utils.rnn.pad_sequence(marks, batch_first=True))

    def __len__(self) -> int:
        return len(self.counted)

    def logits(self, model: Any, rows: Sequence[int], offset: int, handler: Handler) -> list[Tensor]:
        """For each of these rows the logits (T, vocabulary) at the places that count."""
        text = PackedText(*(part[list(rows)] for part in self.text))
        seen = text.seen

        def handle(call: AttentionCall) -> Tensor:
            return handler(call.within(seen))

        found = run(model, text.ids, offset, handle, text.places).logits
        return [own[self.counted[row]] for row, own in zip(rows, found, strict=True)]


def _counted(turn: Turn) -> Tensor:
    """Which tokens of a turn stand in front of one of its answer."""
    places = torch.arange(len(turn.ids))
    return (places >= len(turn.asked) - 1) & (places < len(turn.ids) - 1)
