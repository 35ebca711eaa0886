"""The prompts on which compression is measured: documentation, facts, worked examples, instructions.

The first four were at hand while distillation and decoding were worked on; those called fresh were written
when the method was finished. Facts are invented, so that no model can know them.
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


def _merge() -> Any:
    import pandas

    return pandas.DataFrame.merge


def _loadtxt() -> Any:
    import numpy

    return numpy.loadtxt


def _system(name: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": (_TEXTS / f"{name}.txt").read_text().strip()}]


PROMPTS: dict[str, Callable[[], Prompt]] = {
    "documentation": partial(documentation, "documentation", _merge),
    "facts": partial(facts, "facts", "facts"),
    "examples": partial(examples, "examples", 0),
    "instructions": partial(instructions, "instructions", "instructions"),
    "fresh documentation": partial(documentation, "fresh documentation", _loadtxt),
    "fresh facts": partial(facts, "fresh facts", "valley_facts"),
    "fresh examples": partial(examples, "fresh examples", 700),
    "fresh instructions": partial(instructions, "fresh instructions", "bakery_instructions"),
}
