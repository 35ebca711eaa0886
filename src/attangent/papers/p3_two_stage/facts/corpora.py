"""Corpora of facts: made-up ones, CounterFact and HotpotQA. A prompt has an answer and a type of answers."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch

from attangent._core.checks import check_between, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator


@dataclass(frozen=True)
class FactExample:
    """One wording of a fact; `type` names the set of answers that fit it."""

    prompt: str
    answer: str
    type: str


@dataclass(frozen=True)
class FactCorpus:
    """Prompts with their answers.

    An answer of the right type shows syntax, the right answer shows semantics (P3 Section 5). Types may
    overlap. Every answer is one token, however many words it has.

    Attributes:
        training: The examples to train on.
        held_out: Paraphrases of facts in `training`, for validation only.
        types: The answers of each type.
        source: The name of the corpus.
    """

    training: tuple[FactExample, ...]
    held_out: tuple[FactExample, ...]
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
                    f"{example.type!r}; list all answers of a type in `types`"
                )

    @property
    def answers(self) -> list[str]:
        """All answers, sorted."""
        return sorted({answer for answers in self.types.values() for answer in answers})

    @property
    def most_frequent(self) -> float:
        """Fraction of training examples that the most frequent answer of their type gets right."""
        counts = Counter((example.type, example.answer) for example in self.training)
        best: dict[str, int] = {}
        for (type, _), count in counts.items():
            best[type] = max(best.get(type, 0), count)
        return sum(best.values()) / len(self.training)


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
    """Sizes of a made-up corpus, in which no two relations share an answer.

    Args:
        relations: The number of relations.
        answers: The number of answers per relation.
        subjects: The number of subjects.
        facts_per_subject: The number of facts per subject.
        wordings: Wordings per fact; one of them is held out, a different one from fact to fact.
        links: If above 0, questions are about a link of the subject, and answers depend on both (two hops).
        seed: Seed of words and facts.

    Example:
        >>> corpus = TypedFacts(relations=2, answers=3, subjects=5, facts_per_subject=1).corpus()
        >>> len(corpus.training), len(corpus.held_out)
        (15, 5)
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
        check_size("links", self.links, least=0)
        check_between("wordings", self.wordings, 2, len(DIRECT))
        questions = self.relations * max(self.links, 1)
        if self.facts_per_subject > questions:
            raise AttangentError(
                f"facts_per_subject is {self.facts_per_subject}, expected at most {questions}, the number of "
                "relations (times links); pass more relations"
            )

    def corpus(self) -> FactCorpus:
        """Return the corpus of these sizes and this seed."""
        random = generator(self.seed, "typed facts")
        needed = self.relations * (1 + self.answers) + max(self.links, 1) + self.subjects
        words = _distinct_words(needed, random)
        relations = _take(words, self.relations)
        links = _take(words, max(self.links, 1))
        types = {relation: tuple(_take(words, self.answers)) for relation in relations}
        questions = list(product(relations, links))
        facts: list[tuple[str, str, str, str]] = []
        for subject in _take(words, self.subjects):
            chosen = torch.randperm(len(questions), generator=random)[: self.facts_per_subject]
            for relation, link in (questions[index] for index in chosen.tolist()):
                answer = types[relation][int(torch.randint(self.answers, (), generator=random))]
                facts.append((subject, relation, link, answer))
        return self._worded(facts, types)

    def _worded(
        self, facts: list[tuple[str, str, str, str]], types: dict[str, tuple[str, ...]]
    ) -> FactCorpus:
        """Write every fact in all wordings; the number of the fact decides which one is held out."""
        training: list[FactExample] = []
        held_out: list[FactExample] = []
        for number, (subject, relation, link, answer) in enumerate(facts):
            for index, wording in enumerate((TWO_HOPS if self.links else DIRECT)[: self.wordings]):
                prompt = wording.format(subject=subject, relation=relation, link=link)
                examples = held_out if index == number % self.wordings else training
                examples.append(FactExample(prompt, answer, relation))
        source = "two-hop facts" if self.links else "typed facts"
        return FactCorpus(tuple(training), tuple(held_out), types, source)


def _distinct_words(count: int, random: torch.Generator) -> list[str]:
    """Return `count` different words with as few syllables as possible, at least two."""
    syllables = 2
    while len(_SYLLABLES) ** syllables < 2 * count:
        syllables += 1
    chosen = torch.randperm(len(_SYLLABLES) ** syllables, generator=random)[:count].tolist()
    return [_word(number, syllables) for number in chosen]


def _word(number: int, syllables: int) -> str:
    letters = []
    for _ in range(syllables):
        number, index = divmod(number, len(_SYLLABLES))
        letters.append(_SYLLABLES[index])
    return "".join(letters)


def _take(words: list[str], count: int) -> list[str]:
    """Remove the first `count` words from the list and return them."""
    taken = words[:count]
    del words[:count]
    return taken


_COUNTERFACT_FIELDS = ("prompt", "subject", "ground_truth", "target_new", "rephrase_prompt")


def load_counterfact(
    paths: str | Path | Iterable[str | Path],
    facts: int | None = None,
    held_out: float = 0.2,
    least: int = 20,
    seed: int = 0,
) -> FactCorpus:
    """Load true facts of CounterFact from JSON files (also .gz) in the layout of EasyEdit.

    A fact is trained on its prompt and its paraphrase, unless the paraphrase is held out. The type of a
    prompt is its wording without the subject. Its answers are all that the files have for that wording, true
    or false.

    Args:
        paths: One or more files.
        facts: How many facts to draw; None for all.
        held_out: Fraction of the facts whose paraphrase is held out.
        least: Skip wordings with fewer records than this.
        seed: Seed of the draw.

    Returns:
        The corpus.

    Raises:
        AttangentError: If a file is missing or damaged, or holds fewer facts.
    """
    check_between("held_out", held_out, 0.0, 1.0)
    worded = [_worded(record) for record in _once(_read_json(paths, _COUNTERFACT_FIELDS))]
    types = _types(worded, least)
    usable = [fact for fact in worded if fact[0].wording in types]
    drawn = [usable[index] for index in _draw(len(usable), facts, seed, "facts of counterfact")]
    prompts = [fact[0] for fact in drawn]
    paraphrases = [fact[1] for fact in drawn]
    cut = int(held_out * len(drawn))
    return FactCorpus(
        training=_examples(prompts + paraphrases[cut:], types),
        held_out=_examples(paraphrases[:cut], types),
        types=types,
        source="CounterFact",
    )


def _draw(usable: int, facts: int | None, seed: int, stream: str) -> list[int]:
    """Return the indices of `facts` usable facts, drawn by seed; of all of them by default."""
    wanted = usable if facts is None else facts
    if not 1 <= wanted <= usable:
        raise AttangentError(
            f"facts is {wanted}, but the files hold {usable} usable facts; pass 1 to {usable}"
        )
    return torch.randperm(usable, generator=generator(seed, stream))[:wanted].tolist()


@dataclass(frozen=True)
class _Worded:
    prompt: str
    wording: str
    true: str
    false: str


def _once(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records whose prompt names the subject, without repeated prompts."""
    named = [record for record in records if record["subject"] in record["prompt"]]
    return list({record["prompt"]: record for record in reversed(named)}.values())[::-1]


def _worded(record: dict[str, Any]) -> tuple[_Worded, _Worded]:
    """Return the prompt of a record and its paraphrase."""
    subject = record["subject"]
    answers = (record["ground_truth"], record["target_new"])
    prompts = (record["prompt"], _last_sentence(record["rephrase_prompt"], subject))
    first, second = (_Worded(prompt, prompt.replace(subject, "{}", 1), *answers) for prompt in prompts)
    return first, second


def _last_sentence(paraphrase: str, subject: str) -> str:
    """Return the paraphrase without the unrelated sentence that CounterFact puts before it."""
    before, separator, after = paraphrase.rpartition(subject)
    return before.rpartition(". ")[2] + separator + after


def _types(worded: list[tuple[_Worded, _Worded]], least: int) -> dict[str, tuple[str, ...]]:
    by_wording: dict[str, list[_Worded]] = {}
    for prompt in (prompt for fact in worded for prompt in fact):
        by_wording.setdefault(prompt.wording, []).append(prompt)
    return {
        wording: tuple(sorted({answer for prompt in prompts for answer in (prompt.true, prompt.false)}))
        for wording, prompts in by_wording.items()
        if len(prompts) >= least
    }


def _examples(prompts: list[_Worded], types: dict[str, tuple[str, ...]]) -> tuple[FactExample, ...]:
    return tuple(
        FactExample(prompt.prompt, prompt.true, prompt.wording)
        for prompt in prompts
        if prompt.wording in types
    )


def _read_json(paths: str | Path | Iterable[str | Path], needed: Iterable[str]) -> list[dict[str, Any]]:
    """Read the records of one or more JSON or JSON-lines files; all must have the needed fields."""
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    records = [record for path in files for record in _records(Path(path))]
    for number, record in enumerate(records):
        missing = [name for name in needed if name not in record]
        if missing:
            raise AttangentError(f"record {number} lacks {', '.join(missing)}; it has {', '.join(record)}")
    return records


def _records(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise AttangentError(f"there is no file {path}")
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise AttangentError(
            f"{path} is not JSON: {error}; expected a list or one record per line"
        ) from error


_QUESTION_KINDS = (
    ("yes or no", re.compile(r"^(are|is|was|were|do|does|did|has|have|had|can|could)\b")),
    ("number", re.compile(r"\bhow (many|much|old|long|tall|far|large|high)\b|\bwhat number\b")),
    ("date", re.compile(r"\bwhen\b|\b(what|which) (year|date|month|day|decade|century)\b|\bin what year\b")),
    ("person", re.compile(r"\bwho(m|se)?\b|\b(what|which) (actor|actress|author|director|singer|player)\b")),
    ("place", re.compile(r"\bwhere\b|\b(what|which) (city|country|state|county|town|island|continent)\b")),
)


def question_kind(question: str) -> str:
    """Return what a question asks for: yes or no, number, date, person, place, or thing.

    >>> question_kind("In which city was the author of Emma born?")
    'place'
    """
    text = question.strip().lower()
    return next((kind for kind, pattern in _QUESTION_KINDS if pattern.search(text)), "thing")


def load_hotpotqa(
    paths: str | Path | Iterable[str | Path], facts: int | None = None, longest: int = 40, seed: int = 0
) -> FactCorpus:
    """Load questions of at most `longest` words with their answers, from JSON or JSON-lines files (also .gz).

    The data has no types: an answer is of the right type if some question of the same kind has it (see
    `question_kind`). It has no paraphrases either.
    """
    questions = {
        record["question"]: record["answer"]
        for record in _read_json(paths, ("question", "answer"))
        if len(record["question"].split()) <= longest
    }
    pairs = list(questions.items())
    drawn = [pairs[index] for index in _draw(len(pairs), facts, seed, "questions of hotpotqa")]
    examples = tuple(FactExample(question, answer, question_kind(question)) for question, answer in drawn)
    types: dict[str, set[str]] = {}
    for example in examples:
        types.setdefault(example.type, set()).add(example.answer)
    return FactCorpus(
        examples, (), {name: tuple(sorted(answers)) for name, answers in types.items()}, "HotpotQA"
    )
