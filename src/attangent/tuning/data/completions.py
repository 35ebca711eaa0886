"""Texts to go on with: prompts with their completions, plain texts, or math problems."""

from pathlib import Path
from typing import Any

from attangent.papers.p1_prefix.math_data import problem_of
from attangent.tuning.data.blanks import check_texts
from attangent.tuning.data.text import parsed_records
from attangent.tuning.encoding import Completion


def read_completions(path: Path) -> list[Completion]:
    """Rows with `prompt` and `completion`, with `text` alone, or problems of GSM8K and MATH."""
    found = parsed_records(path, _completion, "at least one text")
    check_texts(path, [(number, (one.text,)) for number, one in enumerate(found, 1)])
    return found


def _completion(row: dict[str, Any]) -> Completion:
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return Completion(row["prompt"], row["completion"])
    if isinstance(row.get("text"), str):
        return Completion("", row["text"])
    return problem_of(row).completion()
