"""The questions that the prompt alone answers, and which of them a compressed one still does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent.compression.prompt import tokens_of
from attangent.compression.quiz.answers import Answer, Way, answers_by, holds_words, likelihoods
from attangent.compression.quiz.questions import Question

QUIZ_TOKENS = 24


class Said(NamedTuple):
    """What is said to a question, whether it is right, and, where the answer was begun, how likely it is."""

    text: str
    right: bool
    chance: float = 0.0


Say = Callable[[Sequence[Question]], list[Said]]
"""What is said to questions."""


@dataclass(frozen=True)
class Quiz:
    """Questions with the answers of the full prompt, which are right, and those without it, which are not.

    chances: of answers that were begun, how likely the full prompt goes on as expected; 0 for others.
    """

    questions: tuple[Question, ...]
    full: tuple[str, ...]
    none: tuple[str, ...]
    chances: tuple[float, ...] = ()

    @classmethod
    def made(
        cls,
        questions: Sequence[Question],
        full: Say,
        none: Say,
    ) -> "Quiz":
        """Of these questions the ones that the full prompt answers and no prompt does not."""
        said = zip(questions, full(questions), strict=True) if questions else ()
        right = [(question, one) for question, one in said if one.right]
        without = none([question for question, _ in right]) if right else []
        kept = [
            (q, a.text, b.text, a.chance) for (q, a), b in zip(right, without, strict=True) if not b.right
        ]
        return cls(*(tuple(part) for part in zip(*kept, strict=True))) if kept else cls((), (), ())

    @classmethod
    def joined(cls, parts: "Sequence[Quiz]") -> "Quiz":
        """The questions of all parts, in order."""
        names = ("questions", "full", "none", "chances")
        return cls(*(tuple(one for part in parts for one in getattr(part, name)) for name in names))

    @classmethod
    def read(cls, notes: dict[str, Any]) -> "Quiz":
        """A quiz that was written with `asdict`."""
        questions = tuple(Question(**question) for question in notes["questions"])
        return cls(questions, tuple(notes["full"]), tuple(notes["none"]), tuple(notes.get("chances", ())))

    def __len__(self) -> int:
        return len(self.questions)

    def answers(self, said: Sequence[Said]) -> tuple[Answer, ...]:
        """The answers of a compressed prompt beside the others."""
        chances = self.chances or (0.0,) * len(self)
        parts = zip(self.questions, self.full, said, self.none, chances, strict=True)
        return tuple(
            Answer(q.shown, full, one.text, none, q.expected, one.chance / chance if q.begun else None)
            for q, full, one, none, chance in parts
        )


def quiz_answers(
    model: Any,
    tokenizer: Any,
    questions: Sequence[Question],
    question: Callable[[str], Tensor],
    way: Way,
    progress: Callable[[int], Any] = lambda answered: None,
) -> list[Said]:
    """What the model says to each question in one way to have the prompt.

    Where the answer was begun, it is not written: it is looked up how likely it goes on as expected.
    """
    plain = [one for one in questions if not one.begun]
    rows = [question(one.text) for one in plain]
    expected = [one.expected for one in plain]
    texts = answers_by(model, tokenizer, rows, way, QUIZ_TOKENS, progress, expected)
    said = {one: Said(text, holds_words(text, one.expected)) for one, text in zip(plain, texts, strict=True)}
    begun = [one for one in questions if one.begun]
    turns = [begun_turn(tokenizer, one, question(one.text)) for one in begun]
    for one, (chance, likeliest) in zip(begun, likelihoods(model, turns, way, progress), strict=True):
        said[one] = Said(f"{one.rest.strip()} ({chance:.0%})", likeliest, chance)
    return [said[one] for one in questions]


def begun_turn(tokenizer: Any, question: Question, asked: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens up to where an answer goes on, and those with which it should."""
    begun, whole = (tokens_of(tokenizer, text) for text in (question.begun, question.begun + question.rest))
    same = (begun == whole[: len(begun)]).long().cumprod(dim=0).sum() if len(whole) >= len(begun) else 0
    place = min(int(same), len(whole) - 1)
    return torch.cat([asked, whole[:place]]), whole[place:]
