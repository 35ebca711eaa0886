"""Facts in words: prompts, their answers, and the answers that would have been of the right type."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from attangent._core.errors import AttangentError


@dataclass(frozen=True)
class Example:
    """One wording of a fact; `type` names the set of answers that fit it."""

    prompt: str
    answer: str
    type: str


@dataclass(frozen=True)
class FactCorpus:
    """Prompts with their answers: `types[name]` lists the answers of that type.

    An answer of the right type shows syntax, the right one semantics (P3 Section 5). `held_out` are
    paraphrases of facts in `training` that a model should not be trained on. Types may overlap; every answer
    is one token, however many words it has.
    """

    training: tuple[Example, ...]
    held_out: tuple[Example, ...]
    types: Mapping[str, tuple[str, ...]]
    source: str

    def __post_init__(self) -> None:
        if not self.training:
            raise AttangentError(f"the corpus {self.source} has no examples to train on")
        answers = {name: frozenset(answers) for name, answers in self.types.items()}
        for example in (*self.training, *self.held_out):
            if example.answer not in answers.get(example.type, ()):
                raise AttangentError(
                    f"{example.answer!r}, the answer to {example.prompt!r}, is not among those of type "
                    f"{example.type!r}: every type lists all its answers"
                )

    @property
    def answers(self) -> list[str]:
        return sorted({answer for answers in self.types.values() for answer in answers})

    @property
    def most_frequent(self) -> float:
        """Share of the training examples that the most frequent answer of each type gets right."""
        counts = Counter((example.type, example.answer) for example in self.training)
        best: dict[str, int] = {}
        for (type, _), count in counts.items():
            best[type] = max(best.get(type, 0), count)
        return sum(best.values()) / len(self.training)
