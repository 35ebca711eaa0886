"""Answers kept, ratio, seconds and bytes of every method on one prompt, and the table of all of them.

Seconds are those of the processor, so that a busy machine does not change them.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent.compression.answers import Way, answers_by
from attangent.compression.capture import run
from attangent.compression.compressor import Compressor
from attangent.compression.distill import Distillation
from attangent.compression.goal import STEPS
from benchmarks.child import Unavailable
from benchmarks.compress_prompts import Prompt
from benchmarks.compress_rivals import (
    PRESSES,
    Entry,
    attention_matching,
    cartridge,
    cut,
    kvpressed,
    summarised,
    summary,
    timed,
)

RESULTS = Path(__file__).with_name("compress_results.json")
EVERY_SIZE = ("KVzip",)
"""Rivals of kvpress that are measured at every size; the others at the first only."""


def measure_prompt(
    job: Compressor, prompt: Prompt, sizes: Sequence[int], distilled: bool = False
) -> Iterator[dict[str, Any]]:
    """A row for the full prompt and one for each method and size, as soon as it is known."""
    started = time.process_time()
    _ = job.cache, job.text, job.scores
    shared = time.process_time() - started
    full = {"method": "full prompt", "size": len(job.ids), "seconds": 0.0, "bytes": job.cache.number_of_bytes}
    yield _row(job, prompt, full | {"ratio": 0.0}, Way.full(job.cache))
    ratio = Ratio(job)
    for entry in _entries(job, sizes, shared, distilled):
        yield _measured(job, prompt, entry, ratio)


def _entries(job: Compressor, sizes: Sequence[int], shared: float, distilled: bool) -> Iterator[Entry]:
    """Every method at the first size, the nearest rivals at all; reading and sampling count for ours."""
    pressed = _pressed(job, sizes)
    for size in sizes:
        yield _ours(job, "recall", size, shared)
        yield from (entry for entry in pressed if entry.method in EVERY_SIZE and entry.size == size)
        yield attention_matching(job, size)
    yield _ours(job, "anchors", sizes[0], shared)
    yield from (entry for entry in pressed if entry.method not in EVERY_SIZE)
    yield cut(job, sizes[0])
    yield summary(job, sizes[0])
    if distilled:
        closed, plan = job.fit(sizes[0]), Distillation(STEPS)
        made = timed(f"attangent, recall, {STEPS} steps", sizes[0], lambda: job.distill(closed, plan).states)
        yield replace(made, seconds=made.seconds + shared)
        yield cartridge(job, sizes[0])


def _ours(job: Compressor, method: str, size: int, shared: float) -> Entry:
    made = timed(f"attangent, {method}", size, lambda: job.fit(size, method).states)
    return replace(made, seconds=made.seconds + shared)


def _pressed(job: Compressor, sizes: Sequence[int]) -> list[Entry]:
    wanted = [(press, size) for press in PRESSES for size in sizes if size == sizes[0] or press in EVERY_SIZE]
    try:
        return kvpressed(job, wanted, Path(job.model.config._name_or_path))
    except Unavailable as reason:
        print(f"left out: {reason}")
        return []


class Ratio:
    """KL(full || other) / KL(full || none) on held-out text, the full prompt asked only once."""

    def __init__(self, job: Compressor):
        self.job = job
        self.full = self._said(Way.full(job.cache))
        self.none = self._distance(Way.none())

    def of(self, way: Way) -> float:
        return self._distance(way) / self.none

    def _said(self, way: Way) -> Tensor:
        text = self.job.held_out
        with torch.no_grad():
            logits = run(self.job.model, text.ids, way.offset, way.handler).logits
        return logits[text.valid].float().log_softmax(dim=-1)

    def _distance(self, way: Way) -> float:
        return (self.full.exp() * (self.full - self._said(way))).sum(dim=-1).mean().item()


def _measured(job: Compressor, prompt: Prompt, entry: Entry, ratio: Ratio) -> dict[str, Any]:
    about: dict[str, Any] = {
        "method": entry.method,
        "size": entry.size,
        "seconds": round(entry.seconds, 1),
        "ratio": None,
    }
    if entry.states is None:
        cache = summarised(job, entry.text or "")
        return _row(job, prompt, about | {"bytes": cache.number_of_bytes}, Way.full(cache))
    tensors = [tensor for state in entry.states.values() for tensor in state.state_dict().values()]
    about["bytes"] = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    way = Way.compressed(job.cache, entry.states)
    if entry.method.startswith(("attangent", "Attention", *EVERY_SIZE)):
        about["ratio"] = ratio.of(way)
    return _row(job, prompt, about, way)


def _row(job: Compressor, prompt: Prompt, about: dict[str, Any], way: Way) -> dict[str, Any]:
    rows = [job.reader.question(job.tokenizer, question) for question, _ in prompt.questions]
    said = answers_by(job.model, job.tokenizer, rows, way) if rows else []
    pairs = zip(prompt.questions, said, strict=True)
    right = sum(word.casefold() in answer.casefold() for (_, word), answer in pairs)
    found = {
        "prompt": prompt.name,
        "tokens": len(job.ids),
        **about,
        "answers": right,
        "questions": len(rows),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(found), flush=True)
    return found


def write(new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put rows into the file of results, in the place of those of the same prompt, method and size."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["prompt"], row["method"], row["size"]

    old = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    replaced = {key(row) for row in new}
    rows = [row for row in old if key(row) not in replaced] + list(new)
    RESULTS.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: a line for each method and size, a column for each prompt, and the means."""
    prompts = list(dict.fromkeys(row["prompt"] for row in rows))
    kinds = dict.fromkeys(
        (row["method"], row["size"] if row["method"] != "full prompt" else 0) for row in rows
    )
    lines = [
        f"| method | tokens | {' | '.join(prompts)} | answers | ratio | seconds | MB |",
        f"|---|---:|{'---:|' * (len(prompts) + 4)}",
    ]
    for method, size in sorted(kinds, key=lambda kind: (-kind[1] if kind[1] else -1e9, kind[0])):
        own = [row for row in rows if row["method"] == method and size in (0, row["size"])]
        by_prompt = {row["prompt"]: f"{row['answers']}/{row['questions']}" for row in own}
        mean = partial(_mean, own)
        lines.append(
            f"| {method} | {size or 'all'} | {' | '.join(by_prompt.get(name, '-') for name in prompts)} | "
            f"{mean(_share)} | {mean(lambda row: row['ratio'])} | {mean(lambda row: row['seconds'])} | "
            f"{mean(lambda row: row['bytes'] / 1e6)} |"
        )
    return "\n".join(lines)


def _share(row: dict[str, Any]) -> float | None:
    return row["answers"] / row["questions"] if row["questions"] else None


def _mean(rows: Sequence[dict[str, Any]], number: Callable[[dict[str, Any]], float | None]) -> str:
    found = [value for value in map(number, rows) if value is not None]
    return f"{sum(found) / len(found):.3g}" if found else "-"
