"""Questions and answers of HotpotQA, typed by what the question asks for."""

import re
from collections.abc import Iterable
from pathlib import Path

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p3_two_stage.facts.corpus import Example, FactCorpus
from attangent.papers.p3_two_stage.facts.counterfact import read_json

_KINDS = (
    ("yes or no", re.compile(r"^(are|is|was|were|do|does|did|has|have|had|can|could)\b")),
    ("number", re.compile(r"\bhow (many|much|old|long|tall|far|large|high)\b|\bwhat number\b")),
    ("date", re.compile(r"\bwhen\b|\b(what|which) (year|date|month|day|decade|century)\b|\bin what year\b")),
    ("person", re.compile(r"\bwho(m|se)?\b|\b(what|which) (actor|actress|author|director|singer|player)\b")),
    ("place", re.compile(r"\bwhere\b|\b(what|which) (city|country|state|county|town|island|continent)\b")),
)
OTHER = "thing"


def question_kind(question: str) -> str:
    """What a question asks for: yes or no, number, date, person, place, or another thing.

    >>> question_kind("In which city was the author of Emma born?")
    'place'
    """
    asked = question.strip().lower()
    return next((kind for kind, pattern in _KINDS if pattern.search(asked)), OTHER)


def load_hotpotqa(
    paths: str | Path | Iterable[str | Path],
    facts: int | None = None,
    longest: int = 40,
    seed: int = 0,
) -> FactCorpus:
    """Questions of at most `longest` words with their answers, from JSON or JSON-lines files (also .gz).

    Records need `question` and `answer`, as in the released files. The data has no types of its own: an
    answer is of the right type where some question of the same kind has it (see `question_kind`). There are
    no paraphrases.
    """
    questions = {
        record["question"]: record["answer"]
        for record in read_json(paths, ("question", "answer"))
        if len(record["question"].split()) <= longest
    }
    wanted = len(questions) if facts is None else facts
    if not 1 <= wanted <= len(questions):
        raise AttangentError(
            f"{wanted} facts were asked for, the files hold 1 to {len(questions)} usable ones"
        )
    order = torch.randperm(len(questions), generator=generator(seed, "questions of hotpotqa"))[:wanted]
    every = list(questions.items())
    drawn = [every[place] for place in order.tolist()]
    chosen = tuple(Example(question, answer, question_kind(question)) for question, answer in drawn)
    types: dict[str, set[str]] = {}
    for example in chosen:
        types.setdefault(example.type, set()).add(example.answer)
    return FactCorpus(chosen, (), {name: tuple(sorted(found)) for name, found in types.items()}, "HotpotQA")
