"""Corpora of made-up facts: any number of relations, each with answers of its own type, and paraphrases."""

from dataclasses import dataclass
from itertools import product

import torch

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.papers.p3_two_stage.facts.corpus import Example, FactCorpus

DIRECT = (
    "the {relation} of {subject} is",
    "{subject} has the {relation}",
    "which {relation} has {subject} ? it is",
    "as {relation} {subject} names",
    "ask for the {relation} and {subject} says",
)
TWO_HOPS = (
    "the {relation} of the {link} of {subject} is",
    "the {link} of {subject} has the {relation}",
    "which {relation} has the {link} of {subject} ? it is",
    "as {relation} the {link} of {subject} names",
    "ask for the {relation} and the {link} of {subject} says",
)
_SYLLABLES = [onset + vowel for onset, vowel in product("bdfgklmnprstvz", "aeiou")]


@dataclass(frozen=True)
class TypedFacts:
    """Sizes of a made-up corpus: every relation takes one of `answers` answers that no other relation has.

    A fact is worded in each of `wordings` ways, one of which is held out: another one for each fact, so that
    all wordings occur in training. With `links` > 0 a question is about the link of its subject:
    the answer depends on both, as in questions of two hops.
    """

    relations: int = 10
    answers: int = 10
    subjects: int = 100
    facts_per_subject: int = 2
    wordings: int = 4
    links: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("relations", "answers", "subjects", "facts_per_subject"):
            check_size(name, getattr(self, name))
        if self.facts_per_subject > self.relations * max(self.links, 1):
            raise AttangentError(
                f"{self.facts_per_subject} facts a subject need as many relations (times links), "
                f"there are {self.relations * max(self.links, 1)}"
            )
        if not 2 <= self.wordings <= len(DIRECT):
            raise AttangentError(f"wordings is {self.wordings}, expected 2 to {len(DIRECT)}")
        if self.links < 0:
            raise AttangentError(f"links is {self.links}, expected 0 or more")

    def corpus(self) -> FactCorpus:
        """The corpus of these sizes and this seed."""
        check_memory("the words drawn from", 8 * len(_SYLLABLES), words=2 * self._words_needed)
        check_memory("questions", 100, relations=self.relations, links=max(self.links, 1))
        check_memory("facts", 1000, subjects=self.subjects, facts_per_subject=self.facts_per_subject)
        random = generator(self.seed, "typed facts")
        words = _distinct_words(self._words_needed, random)
        relations, links = _take(words, self.relations), _take(words, max(self.links, 1))
        types = {relation: tuple(_take(words, self.answers)) for relation in relations}
        questions = list(product(relations, links))
        facts: list[tuple[str, str, str, str]] = []
        for subject in _take(words, self.subjects):
            chosen = torch.randperm(len(questions), generator=random)[: self.facts_per_subject]
            for relation, link in (questions[place] for place in chosen.tolist()):
                answer = types[relation][int(torch.randint(self.answers, (), generator=random))]
                facts.append((subject, relation, link, answer))
        return self._worded(facts, types)

    @property
    def _words_needed(self) -> int:
        return self.relations * (1 + self.answers) + max(self.links, 1) + self.subjects

    def _worded(
        self, facts: list[tuple[str, str, str, str]], types: dict[str, tuple[str, ...]]
    ) -> FactCorpus:
        """Every fact in all wordings; the number of the fact says which one is held out."""
        training, held_out = [], []
        for number, (subject, relation, link, answer) in enumerate(facts):
            for place, wording in enumerate((TWO_HOPS if self.links else DIRECT)[: self.wordings]):
                prompt = wording.format(subject=subject, relation=relation, link=link)
                apart = place == number % self.wordings
                (held_out if apart else training).append(Example(prompt, answer, relation))
        return FactCorpus(
            tuple(training), tuple(held_out), types, "two-hop facts" if self.links else "typed facts"
        )


def _distinct_words(count: int, random: torch.Generator) -> list[str]:
    """`count` different words of as few syllables as needed, at least two."""
    syllables = 2
    while len(_SYLLABLES) ** syllables < 2 * count:
        syllables += 1
    chosen = torch.randperm(len(_SYLLABLES) ** syllables, generator=random)[:count].tolist()
    return [_word(number, syllables) for number in chosen]


def _word(number: int, syllables: int) -> str:
    parts = []
    for _ in range(syllables):
        number, place = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[place])
    return "".join(parts)


def _take(words: list[str], count: int) -> list[str]:
    """The first `count` words, which leave the list."""
    taken, words[:] = words[:count], words[count:]
    return taken
