"""The questions that the prompt alone answers, and which of them a compressed one still does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attangent.compression.asking.answers import Answer, Way, answers_by
from attangent.compression.asking.questions import Question

QUIZ_TOKENS = 16


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
        full: Callable[[Sequence[str]], list[str]],
        none: Callable[[Sequence[str]], list[str]],
    ) -> "Quiz":
        """Of these questions the ones that the full prompt answers and no prompt does not."""
        said = (
            zip(questions, full([question.text for question in questions]), strict=True) if questions else ()
        )
        right = [(question, answer) for question, answer in said if _right(question, answer)]
        without = none([question.text for question, _ in right]) if right else []
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
        return tuple(Answer(q.text, full, one, none, q.expected) for q, full, one, none in parts)


def _right(question: Question, answer: str) -> bool:
    return question.expected.casefold() in answer.casefold()


def quiz_answers(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    tokens_of: Callable[[str], Tensor],
    way: Way,
    progress: Callable[[int], Any] = lambda answered: None,
) -> list[str]:
    """What the model says to each text in one way to have the prompt."""
    return answers_by(model, tokenizer, [tokens_of(text) for text in texts], way, QUIZ_TOKENS, progress)
