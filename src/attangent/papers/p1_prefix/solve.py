"""Answer a file of math problems with a tuned model and score the answers. What `attangent solve` calls."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.files import check_file, write_whole
from attangent.adapters.files.format import CONFIG, PEFT_TYPE, WEIGHTS
from attangent.adapters.files.read import read_description
from attangent.adapters.files.save import load_adapter
from attangent.papers.p1_prefix.math_data import Problem, read_problems, score_answers, solve
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods.from_peft import with_peft_adapter
from attangent.tuning.methods.ntk import LORA


@dataclass(frozen=True)
class Solving:
    """A causal model with adapters, a file of GSM8K or MATH problems, and how to answer them.

    adapters: folders that `attangent tune` wrote, of prefix states or of peft's methods; all act together.
    limit: only the first so many problems.
    """

    model: str
    problems: Path
    adapters: tuple[Path, ...] = ()
    limit: int | None = None
    max_new_tokens: int = 256
    batch: int = 8

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "batch"):
            check_size(name, getattr(self, name))
        if self.limit is not None:
            check_size("limit", self.limit)


def solve_file(
    solving: Solving, out: Path, report: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Write a line for each problem to `out` (.jsonl); how many were answered right."""
    problems = read_problems(solving.problems)[: solving.limit]
    theirs, ours = _sorted_out(solving.adapters)
    check_file(out)
    tokenizer, model = load_tokenizer(solving.model), load_model(solving.model, "causal-lm")
    model = _with_adapters(model, theirs, ours)
    texts = solve(
        model, tokenizer, problems, max_new_tokens=solving.max_new_tokens, batch=solving.batch, report=report
    )
    score = score_answers(texts, problems)
    rows = [_row(*found) for found in zip(problems, texts, score.answers, score.right, strict=True)]
    write_whole(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return {"problems": len(rows), "right": sum(score.right), "exact_match": score.accuracy}


def _sorted_out(folders: Sequence[Path]) -> tuple[Path | None, Path | None]:
    """The folder of peft's adapter, which may be below that of the states, and that of prefix states."""
    below = [folder / LORA for folder in folders if (folder / LORA).is_dir()]
    folders = [*folders, *(folder for folder in below if folder not in folders)]
    types = [_peft_type_of(folder) for folder in folders]
    theirs = [folder for folder, type_ in zip(folders, types, strict=True) if type_ != PEFT_TYPE]
    ours = [folder for folder, type_ in zip(folders, types, strict=True) if type_ == PEFT_TYPE]
    if len(theirs) > 1 or len(ours) > 1:
        raise AttangentError(
            f"{', '.join(map(str, folders))} are {len(ours)} of prefix states and {len(theirs)} of peft's, "
            "expected at most one of each"
        )
    return (theirs or [None])[0], (ours or [None])[0]


def _with_adapters(model: Any, theirs: Path | None, ours: Path | None) -> Any:
    """peft's adapter comes first, as it wraps the model."""
    if theirs is not None:
        model = with_peft_adapter(model, theirs)
    return model if ours is None else load_adapter(model, ours)


def _peft_type_of(folder: Path) -> str:
    """The `peft_type` of an adapter folder; weights that are not safetensors are refused."""
    kind = read_description(folder / CONFIG).get("peft_type")
    if not isinstance(kind, str):
        raise AttangentError(f"{folder / CONFIG} has no peft_type: is it an adapter's?")
    if not (folder / WEIGHTS).is_file():
        raise AttangentError(f"{folder} has no {WEIGHTS}, the only kind of weights that is read")
    return kind


def _row(problem: Problem, text: str, answer: str | None, right: bool) -> dict[str, Any]:
    return {
        "question": problem.question,
        "expected": problem.answer,
        "answer": answer,
        "right": right,
        "completion": text,
    }
