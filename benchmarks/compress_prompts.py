"""The prompts on which compression is measured: facts, needles, worked examples, instructions, documentation.

Facts are invented, so that no model can know them. Choices were made on `BUILT_ON`; the reported figures come
from `REPORTED`, of which nothing was looked at before.
"""

import gzip
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.child import Unavailable


@dataclass(frozen=True)
class Prompt:
    """A prompt, as text or as the first messages of a chat, with questions and a word of each answer."""

    name: str
    content: str | Sequence[Mapping[str, str]]
    questions: tuple[tuple[str, str], ...] = ()


_TEXTS = Path(__file__).with_name("prompts")
_SHOTS = 7


def documentation(name: str, documented: Callable[[], Any]) -> Prompt:
    """A page of reference documentation: a docstring up to its examples."""
    return Prompt(name, (inspect.getdoc(documented()) or "").partition("Examples\n")[0])


def facts(name: str, file: str) -> Prompt:
    """An invented handbook, and questions on it with a word that the answer must have."""
    lines = (_TEXTS / f"{file}_questions.tsv").read_text().splitlines()
    questions = [line.split("\t") for line in lines]
    return Prompt(name, _system(file), tuple((question, answer) for question, answer in questions))


def instructions(name: str, file: str) -> Prompt:
    """Rules for answering letters."""
    return Prompt(name, _system(file))


def examples(name: str, first: int) -> Prompt:
    """Worked problems of grade-school mathematics (GSM8K), as few-shot prompts show them."""
    path = Path(os.environ.get("ATTANGENT_DATA", ".")) / "gsm8k" / "train.jsonl.gz"
    if not path.is_file():
        raise Unavailable("GSM8K is not there: set ATTANGENT_DATA to a folder with gsm8k/train.jsonl.gz")
    with gzip.open(path, "rt") as file:
        rows: list[dict[str, Any]] = [json.loads(line) for line in islice(file, first, first + _SHOTS)]
    return Prompt(name, "\n\n".join(f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows))


def _loadtxt() -> Any:
    import numpy

    return numpy.loadtxt


def _system(name: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": (_TEXTS / f"{name}.txt").read_text().strip()}]


def needles(name: str, keys: int, tokens: int, seed: int) -> Prompt:
    """Many keys in a long text that says nothing: multi-key retrieval of the kind that RULER asks for."""
    draw = Random(seed)
    cities = draw.sample(_CITIES, keys)
    numbers = draw.sample(range(10_000, 100_000), keys)
    told = [f"The secret number of {city} is {number}." for city, number in zip(cities, numbers, strict=True)]
    count = max(keys, tokens // 12)
    lines = [draw.choice(_HAY) for _ in range(count - keys)]
    for sentence in told:
        lines.insert(draw.randrange(len(lines) + 1), sentence)
    questions = [
        (f"What is the secret number of {city}?", str(number))
        for city, number in zip(cities, numbers, strict=True)
    ]
    return Prompt(name, [{"role": "system", "content": " ".join(lines)}], tuple(questions))


_FACTS = ("valley", "ferry", "orchard", "theatre", "expedition", "railway", "observatory")
_CITIES = (
    "Arden", "Bexley", "Corwen", "Dunmore", "Elstow", "Farley", "Glynde", "Hadlow", "Ilford", "Jarrow",
    "Kelso", "Lydd", "Malden", "Norham", "Oakham", "Penrith", "Quorn", "Ripley", "Selby", "Tenby",
)  # fmt: skip
_HAY = (
    "The grass is green and the sky is blue over the quiet hills.",
    "People walk along the river in the evening and talk about the weather.",
    "The market opens early and closes when the last bread is sold.",
    "A dog sleeps in the shade while the children play in the yard.",
    "The train passes the old mill twice a day and never stops.",
    "Rain falls in the afternoon and the streets are empty for an hour.",
)

BUILT_ON = ("facts", "valley", "ferry", "instructions", "bakery")
REPORTED = ("railway", "observatory", "orchard", "theatre", "expedition", "needles", "examples")
PROMPTS: dict[str, Callable[[], Prompt]] = {
    **{name: partial(facts, name, f"{name}_facts") for name in _FACTS},
    "facts": partial(facts, "facts", "facts"),
    "needles": partial(needles, "needles", 12, 1000, 5),
    "needle": partial(needles, "needle", 4, 1000, 6),
    "needles-2k": partial(needles, "needles-2k", 12, 2000, 7),
    "needles-4k": partial(needles, "needles-4k", 12, 4000, 8),
    "instructions": partial(instructions, "instructions", "instructions"),
    "bakery": partial(instructions, "bakery", "bakery_instructions"),
    "examples": partial(examples, "examples", 700),
    "documentation": partial(documentation, "documentation", _loadtxt),
}
