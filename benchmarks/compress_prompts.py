"""The prompts on which compression is measured: documentation, facts, worked examples, instructions.

None of them was used to design the method. Facts are invented, so that no model can know them.
"""

import gzip
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


def documentation() -> Prompt:
    """A page of reference documentation: the docstring of pandas' DataFrame.merge."""
    import pandas

    text = inspect.getdoc(pandas.DataFrame.merge) or ""
    return Prompt("documentation", text.partition("Examples\n")[0])


def facts() -> Prompt:
    """An invented handbook, and questions on it with a word that the answer must have."""
    lines = (_TEXTS / "facts_questions.tsv").read_text().splitlines()
    questions = [line.split("\t") for line in lines]
    return Prompt("facts", _system("facts"), tuple((question, answer) for question, answer in questions))


def instructions() -> Prompt:
    """Rules for answering letters."""
    return Prompt("instructions", _system("instructions"))


def examples() -> Prompt:
    """Worked problems of grade-school mathematics (GSM8K), as few-shot prompts show them."""
    path = Path(os.environ.get("ATTANGENT_DATA", ".")) / "gsm8k" / "train.jsonl.gz"
    if not path.is_file():
        raise Unavailable("GSM8K is not there: set ATTANGENT_DATA to a folder with gsm8k/train.jsonl.gz")
    with gzip.open(path, "rt") as file:
        rows: list[dict[str, Any]] = [json.loads(next(file)) for _ in range(_SHOTS)]
    return Prompt(
        "examples", "\n\n".join(f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows)
    )


def _system(name: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": (_TEXTS / f"{name}.txt").read_text().strip()}]


PROMPTS = {
    "documentation": documentation,
    "facts": facts,
    "examples": examples,
    "instructions": instructions,
}
