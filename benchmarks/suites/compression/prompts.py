"""The prompts on which compression is measured: facts, needles, worked examples, instructions.

Facts are invented, so that no model can know them. Choices were made on `BUILT_ON`; the reported figures come
from the prompts of `TASKS`, on none of which anything was chosen.
"""

import gzip
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.harness.child import Unavailable


@dataclass(frozen=True)
class Prompt:
    """A prompt, as text or as the first messages of a chat, and what is asked behind it.

    questions: what is asked, and a regular expression that a right answer matches. Where it is empty, an
    answer is right that has most of the words which the full prompt brings in.
    tokens: the most that an answer may have; it also ends with a paragraph where `paragraph` is set.
    """

    name: str
    content: str | Sequence[Mapping[str, str]]
    questions: tuple[tuple[str, str], ...] = ()
    tokens: int = 24
    paragraph: bool = False


_TEXTS = Path(__file__).with_name("texts")
_SHOTS = 7
_PROBLEMS = 12
_WORKED = r"#### ?-?[\d,.]*\d"
"""How the shots end: four hashes and a number."""


def facts(name: str, file: str) -> Prompt:
    """An invented handbook, and questions on it with a word that the answer must have."""
    lines = (_TEXTS / f"{file}_questions.tsv").read_text().splitlines()
    questions = [line.split("\t") for line in lines]
    return Prompt(name, _system(file), tuple((question, re.escape(answer)) for question, answer in questions))


def instructions(name: str, file: str) -> Prompt:
    """Rules for answering letters, and letters: the answer should say what it says behind all the rules."""
    path = _TEXTS / f"{file}_letters.txt"
    letters = path.read_text().splitlines() if path.is_file() else []
    return Prompt(name, _system(file), tuple((letter, "") for letter in letters), tokens=32)


def examples(name: str, first: int) -> Prompt:
    """Worked problems of grade-school mathematics (GSM8K), as few-shot prompts show them, and new problems.

    An answer is right that ends as the worked ones do; whether the number is right is beyond small models.
    """
    shots, problems = _problems("train", first, _SHOTS), _problems("test", first, _PROBLEMS)
    worked = "\n\n".join(f"Question: {row['question']}\nAnswer: {row['answer']}" for row in shots)
    asked = tuple((f"\n\nQuestion: {row['question']}\nAnswer:", _WORKED) for row in problems)
    return Prompt(name, worked, asked, tokens=96, paragraph=True)


def _problems(part: str, first: int, count: int) -> list[dict[str, Any]]:
    path = Path(os.environ.get("ATTANGENT_DATA", ".")) / "gsm8k" / f"{part}.jsonl.gz"
    if not path.is_file():
        raise Unavailable(f"GSM8K is not there: set ATTANGENT_DATA to a folder with gsm8k/{part}.jsonl.gz")
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in islice(file, first, first + count)]


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

BUILT_ON = ("facts", "valley", "ferry", "instructions", "bakery", "needles-built", "examples-built")
NEEDLES_1K = ("needles", "needles-second", "needles-third")
NEEDLES_2K = ("needles-2k", "needles-2k-second")
TASKS: dict[str, tuple[str, ...]] = {
    "facts": ("railway", "observatory", "orchard", "theatre", "expedition"),
    "needles": (*NEEDLES_1K, *NEEDLES_2K, "needles-4k"),
    "examples": ("examples", "examples-other"),
    "instructions": ("garden",),
}
"""The prompts of each task that are reported."""
DOCUMENTS = ("corrie", "dronefen", "magpie", "pellin")
EARLIER_DOCUMENTS = (
    "parking", "radio", "sewing", "teasel", "marina", "lending", "printer", "relay", "boulder", "refunds",
    "dryer", "tidewatch",
)  # fmt: skip
"""Documents of texts/documents/reported; the earlier ones were measured with the settings of their time."""
REPORTED = tuple(name for names in TASKS.values() for name in names)
PROMPTS: dict[str, Callable[[], Prompt]] = {
    **{name: partial(facts, name, f"{name}_facts") for name in _FACTS},
    "facts": partial(facts, "facts", "facts"),
    "needles": partial(needles, "needles", 12, 1000, 5),
    "needles-second": partial(needles, "needles-second", 12, 1000, 21),
    "needles-third": partial(needles, "needles-third", 12, 1000, 22),
    "needles-2k": partial(needles, "needles-2k", 12, 2000, 7),
    "needles-2k-second": partial(needles, "needles-2k-second", 12, 2000, 23),
    "needles-4k": partial(needles, "needles-4k", 12, 4000, 8),
    "needles-built": partial(needles, "needles-built", 12, 1000, 11),
    "instructions": partial(instructions, "instructions", "instructions"),
    "bakery": partial(instructions, "bakery", "bakery_instructions"),
    "garden": partial(instructions, "garden", "garden_instructions"),
    "examples": partial(examples, "examples", 700),
    "examples-other": partial(examples, "examples-other", 300),
    "examples-built": partial(examples, "examples-built", 100),
}


def task_of(prompt: str) -> str:
    """The task that a prompt belongs to."""
    return next((task for task, names in TASKS.items() if prompt in names), "building")
