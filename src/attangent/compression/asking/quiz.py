"""The questions that the prompt alone answers, and which of them a compressed one still does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attangent.compression.asking.answers import Answer, Way, answers_by
from attangent.compression.asking.questions import Question

QUIZ_TOKENS = 16
BEGUN_TOKENS = 8
"""The most tokens of an answer that was begun."""
Say = Callable[[Sequence[Question]], list[str]]
"""What is said to questions."""


@dataclass(frozen=True)
class Quiz:
    """Questions with the answers of the full prompt, which are right, and those without it, which are not."""

    questions: tuple[Question, ...]
    full: tuple[str, ...]
    none: tuple[str, ...]

    @classmethod
    def made(
        cls,
        questions: Sequence[Question],
        full: Say,
        none: Say,
    ) -> "Quiz":
        """Of these questions the ones that the full prompt answers and no prompt does not."""
        said = zip(questions, full(questions), strict=True) if questions else ()
        right = [(question, answer) for question, answer in said if _right(question, answer)]
        without = none([question for question, _ in right]) if right else []
        kept = [(q, a, b) for (q, a), b in zip(right, without, strict=True) if not _right(q, b)]
        return cls(*(tuple(part) for part in zip(*kept, strict=True))) if kept else cls((), (), ())

    @classmethod
    def joined(cls, parts: "Sequence[Quiz]") -> "Quiz":
        """The questions of all parts, in order."""
        names = ("questions", "full", "none")
        return cls(*(tuple(one for part in parts for one in getattr(part, name)) for name in names))

    @classmethod
    def read(cls, notes: dict[str, Any]) -> "Quiz":
        """A quiz that was written with `asdict`."""
        questions = tuple(Question(**question) for question in notes["questions"])
        return cls(questions, tuple(notes["full"]), tuple(notes["none"]))

    def __len__(self) -> int:
        return len(self.questions)

    def answers(self, said: Sequence[str]) -> tuple[Answer, ...]:
        """The answers of a compressed prompt beside the others."""
        parts = zip(self.questions, self.full, said, self.none, strict=True)
        return tuple(Answer(q.shown, full, one, none, q.expected) for q, full, one, none in parts)


def _right(question: Question, answer: str) -> bool:
    return question.expected.casefold() in answer.casefold()


def quiz_answers(
    model: Any,
    tokenizer: Any,
    questions: Sequence[Question],
    tokens_of: Callable[[Question], Tensor],
    way: Way,
    progress: Callable[[int], Any] = lambda answered: None,
) -> list[str]:
    """What the model says to each question in one way to have the prompt."""
    said = [""] * len(questions)
    for begun, tokens in ((False, QUIZ_TOKENS), (True, BEGUN_TOKENS)):
        places = [place for place, question in enumerate(questions) if bool(question.begun) is begun]
        rows = [tokens_of(questions[place]) for place in places]
        for place, answer in zip(
            places, answers_by(model, tokenizer, rows, way, tokens, progress), strict=True
        ):
            said[place] = answer
    return said
