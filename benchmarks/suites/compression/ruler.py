"""RULER tasks made offline: needles, variable tracking and common words.

Run `python -m benchmarks.suites.compression.ruler [TASK ...] --tokens 1000 --samples 5`.

The tasks follow RULER (arXiv 2404.06654): one needle, six needles with different keys, a chain of three
variables, and the five most common words of a list. Each needle has its own question; the score of a sample
is the share of expected words that the answers contain. `recall` is fitted without its quiz and without
training. Every method gets the same number of bytes. Rows go to benchmarks/results/compress_ruler.json; those
that are there already are left out, except those of the method that `--again` names. `--only full` measures
the full prompt alone.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import torch

from attangent._core.files import write_json
from attangent.compression import CompressionRequest
from attangent.compression.matching import holds_words
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.quiz import continuations
from benchmarks.harness import folders
from benchmarks.suites.compression.bench_compress import smollm2
from benchmarks.suites.compression.rivals import Presses

RESULTS = folders.RESULTS / "compress_ruler.json"
TIMES = 8
PRESSES = ("KVzip", "KVgrad")
FULL = "full prompt"
METHODS = (FULL, "recall", *PRESSES)
_NOISE = (
    "The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.", "There and back again.",
)  # fmt: skip
_NOISE_TOKENS = 6
_KEYS = (
    "amber", "basket", "candle", "dolphin", "ember", "falcon", "garden", "harbor", "island", "jacket",
    "kettle", "lantern", "marble", "needle", "orchard", "pepper", "quiver", "ribbon", "saddle", "timber",
)  # fmt: skip
_COMMON = 5
_COMMON_TIMES = 12
_RARE_TIMES = 2
_WORD_TOKENS = 4


@dataclass(frozen=True)
class Sample:
    """A text with questions, each with the words that its answer must contain, and tokens per answer."""

    text: str
    questions: tuple[tuple[str, tuple[str, ...]], ...]
    tokens: int = 24


def _hidden(draw: Random, lines: Sequence[str], tokens: int) -> str:
    """Return the lines, in order, among noise of about this many tokens."""
    noise = [_NOISE[i % len(_NOISE)] for i in range(tokens // _NOISE_TOKENS)]
    for line, place in zip(lines, sorted(draw.sample(range(len(noise)), len(lines))), strict=True):
        noise[place] = line
    return " ".join(noise)


def needles(draw: Random, tokens: int, keys: int) -> Sample:
    names = draw.sample(_KEYS, keys)
    values = [str(draw.randrange(1_000_000, 10_000_000)) for _ in names]
    told = [f"The special magic number for {n} is: {v}." for n, v in zip(names, values, strict=True)]
    asked = tuple(
        (f"What is the special magic number for {n} mentioned in the provided text?", (v,))
        for n, v in zip(names, values, strict=True)
    )
    return Sample(_hidden(draw, told, tokens), asked)


def tracking(draw: Random, tokens: int) -> Sample:
    names = ["".join(draw.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(5)) for _ in range(3)]
    value = str(draw.randrange(10_000, 100_000))
    told = [
        f"VAR {names[0]} = {value}.",
        *(f"VAR {b} = VAR {a}." for a, b in pairwise(names)),
    ]
    asked = f"Find all variables that are assigned the value {value} in the text above."
    return Sample(_hidden(draw, told, tokens), ((asked, tuple(names)),), 48)


def common_words(draw: Random, tokens: int) -> Sample:
    words = draw.sample(_KEYS, len(_KEYS))
    rare = (tokens // _WORD_TOKENS - _COMMON * _COMMON_TIMES) // _RARE_TIMES
    others = [
        f"{a}{b}" for a in words[_COMMON:] for b in ("s", "man", "wood", "land", "field", "stone", "box")
    ]
    listed = words[:_COMMON] * _COMMON_TIMES + draw.sample(others, min(rare, len(others))) * _RARE_TIMES
    draw.shuffle(listed)
    text = " ".join(f"{number}. {word}" for number, word in enumerate(listed, 1))
    asked = f"What are the {_COMMON} most common words in the list above?"
    return Sample(text, ((asked, tuple(words[:_COMMON])),), 48)


TASKS: dict[str, Callable[[Random, int], Sample]] = {
    "one needle": lambda draw, tokens: needles(draw, tokens, 1),
    "six needles": lambda draw, tokens: needles(draw, tokens, 6),
    "variable tracking": tracking,
    "common words": common_words,
}


def score(run: CompressionRun, sample: Sample, form: PromptForm) -> float:
    """Return the mean over questions of the share of expected words in the answer."""
    rows = [run.reader.question(run.tokenizer, question) for question, _ in sample.questions]
    answers = continuations(run.model, run.tokenizer, rows, form, sample.tokens)
    shares = [
        sum(holds_words(answer, word) for word in words) / len(words)
        for answer, (_, words) in zip(answers, sample.questions, strict=True)
    ]
    return sum(shares) / len(shares)


def rows_of(run: CompressionRun, sample: Sample, methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the score of the full prompt and of every method that is named."""
    if FULL in methods:
        yield {"method": FULL, "score": score(run, sample, PromptForm.full(run.cache)), "seconds": 0.0}
    size = len(run.ids) // TIMES
    if "recall" in methods:
        started = time.process_time()
        states = run.fit(size).states
        seconds = time.process_time() - started
        yield {"method": "recall", "score": _kept(run, sample, states), "seconds": seconds}
    wanted = [press for press in PRESSES if press in methods]
    with tempfile.TemporaryDirectory() as folder:
        presses = Presses(run, [(press, size) for press in wanted], Path(folder))
        for press in wanted:
            entry = presses.entry(press, size)
            yield {"method": press, "score": _kept(run, sample, entry.states), "seconds": entry.seconds}


def _kept(run: CompressionRun, sample: Sample, states: Any) -> float:
    return score(run, sample, PromptForm.compressed(run.cache, states))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return Markdown: the mean score of each task and method, with its standard error."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [f"| score at {TIMES}x | {' | '.join(methods)} |", f"|---|{'---:|' * len(methods)}"]
    for task, tokens in dict.fromkeys((row["task"], row["tokens"]) for row in rows):
        chosen = [row for row in rows if (row["task"], row["tokens"]) == (task, tokens)]
        cells = [_cell([row["score"] for row in chosen if row["method"] == method]) for method in methods]
        count = len({row["seed"] for row in chosen})
        lines.append(f"| {task}, {tokens:,} tokens, {count} texts | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(scores: Sequence[float]) -> str:
    if not scores:
        return "-"
    values = torch.tensor(scores)
    error = values.std().item() / len(scores) ** 0.5 if len(scores) > 1 else float("nan")
    return f"{values.mean():.0%} ± {error:.0%}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help=f"some of {', '.join(TASKS)}")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--only", choices=("full",), help="measure the full prompt alone and write nothing")
    parser.add_argument("--again", choices=METHODS, help="a method to measure again")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    model, tokenizer = smollm2()
    for seed in range(options.samples):
        for task in options.tasks or TASKS:
            about = {"task": task, "tokens": options.tokens, "seed": seed}
            known = [row for row in rows if about.items() <= row.items()]
            again = [row for row in known if row["method"] == options.again]
            have = {row["method"] for row in known if row not in again}
            methods = (FULL,) if options.only else [method for method in METHODS if method not in have]
            if not methods:
                continue
            sample = TASKS[task](Random(f"{task} {seed}"), options.tokens)
            request = CompressionRequest([{"role": "system", "content": sample.text}])
            run = CompressionRun(model, tokenizer, request)
            measured = [{**about, "length": len(run.ids), **row} for row in rows_of(run, sample, methods)]
            rows = [row for row in rows if row not in again] + measured
            if not options.only:
                write_json(RESULTS, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
