"""Facts in words: a prompt, its answer, and the answers that would have been of the right type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from attangent._errors import AttangentError


@dataclass(frozen=True)
class Fact:
    """One subject, one relation, one answer; `type` names the set of answers that fit the relation.

    `prompts` are the wordings to train on, `held_out` paraphrases that training never sees.
    """

    subject: str
    type: str
    answer: str
    prompts: tuple[str, ...]
    held_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Example:
    """One prompt of a fact."""

    prompt: str
    answer: str
    type: str


@dataclass(frozen=True)
class FactCorpus:
    """Facts and their types: `types[name]` lists the answers that are of this type.

    An answer that is of the right type shows syntax, the right one semantics (P3 Section 5). Types may
    overlap; every answer is one token of the model, however many words it has.
    """

    facts: tuple[Fact, ...]
    types: Mapping[str, tuple[str, ...]]
    source: str

    def __post_init__(self) -> None:
        if not self.facts:
            raise AttangentError(f"the corpus {self.source} has no facts, expected at least one")
        for fact in self.facts:
            if fact.answer not in self._answers_of.get(fact.type, ()):
                raise AttangentError(
                    f"the answer {fact.answer!r} of {fact.subject!r} is not among those of type "
                    f"{fact.type!r}: every type lists all its answers"
                )
            if not fact.prompts:
                raise AttangentError(f"the fact of {fact.subject!r} has no prompt to train on")

    @cached_property
    def _answers_of(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(answers) for name, answers in self.types.items()}

    @cached_property
    def training(self) -> tuple[Example, ...]:
        return _examples([(fact, fact.prompts) for fact in self.facts])

    @cached_property
    def held_out(self) -> tuple[Example, ...]:
        return _examples([(fact, fact.held_out) for fact in self.facts])

    @property
    def answers(self) -> list[str]:
        return sorted({answer for answers in self.types.values() for answer in answers})

    @property
    def most_frequent(self) -> float:
        """Share of the training examples that the most frequent answer of each type gets right."""
        counts: dict[str, dict[str, int]] = {}
        for example in self.training:
            of_type = counts.setdefault(example.type, {})
            of_type[example.answer] = of_type.get(example.answer, 0) + 1
        return sum(max(of_type.values()) for of_type in counts.values()) / len(self.training)


def _examples(worded: Sequence[tuple[Fact, tuple[str, ...]]]) -> tuple[Example, ...]:
    return tuple(Example(prompt, fact.answer, fact.type) for fact, prompts in worded for prompt in prompts)
