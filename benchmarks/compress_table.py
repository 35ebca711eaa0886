"""Answers kept, ratio, seconds and bytes of every method on one prompt, and the table of all of them."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attangent.compression.answers import Way, answers_by
from attangent.compression.compressor import Compressor
from attangent.compression.distill import Distillation
from attangent.compression.fidelity import compare_fidelity
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
) -> list[dict[str, Any]]:
    """A row for each method and size, and one for the full prompt."""
    started = time.perf_counter()
    _ = job.cache, job.text
    shared = time.perf_counter() - started
    entries = [*_ours(job, sizes, shared), *_rivals(job, sizes)]
    if distilled:
        entries += _trained(job, sizes[0], entries[0])
    states = [entry.states for entry in entries if entry.states is not None]
    ratios = iter(compare_fidelity(job.model, job.cache, states, job.held_out))
    full = {"method": "full prompt", "size": len(job.ids), "seconds": 0.0, "bytes": job.cache.number_of_bytes}
    rows = [_row(job, prompt, full | {"ratio": 0.0}, Way.full(job.cache))]
    rows += [_measured(job, prompt, entry, ratios) for entry in entries]
    return rows


def _ours(job: Compressor, sizes: Sequence[int], shared: float) -> list[Entry]:
    """Our methods; what they share, reading and sampling, counts for each, and scoring for `recall`."""
    started = time.perf_counter()
    _ = job.scores
    scoring = time.perf_counter() - started
    found = []
    for method, more in (("recall", shared + scoring), ("anchors", shared)):
        for size in sizes:
            entry = timed(method, size, lambda size=size, method=method: job.fit(size, method).states)
            found.append(Entry(f"attangent, {method}", size, entry.seconds + more, entry.states))
    return found


def _rivals(job: Compressor, sizes: Sequence[int]) -> list[Entry]:
    found = [attention_matching(job, size) for size in sizes]
    found += [cut(job, sizes[0]), summary(job, sizes[0])]
    wanted = [(press, size) for press in PRESSES for size in sizes if size == sizes[0] or press in EVERY_SIZE]
    try:
        found += kvpressed(job, wanted, Path(job.model.config._name_or_path))
    except Unavailable as reason:
        print(f"left out: {reason}")
    return found


def _trained(job: Compressor, size: int, start: Entry) -> Iterator[Entry]:
    closed = job.fit(size)
    made = timed(
        f"attangent, recall, {STEPS} steps", size, lambda: job.distill(closed, Distillation(STEPS)).states
    )
    yield Entry(made.method, size, made.seconds + start.seconds, made.states)
    yield cartridge(job, size)


def _measured(job: Compressor, prompt: Prompt, entry: Entry, ratios: Iterator[Any]) -> dict[str, Any]:
    about = {"method": entry.method, "size": entry.size, "seconds": round(entry.seconds, 1)}
    if entry.states is None:
        cache = summarised(job, entry.text or "")
        return _row(job, prompt, about | {"bytes": cache.number_of_bytes, "ratio": None}, Way.full(cache))
    tensors = [tensor for state in entry.states.values() for tensor in state.state_dict().values()]
    about["bytes"] = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    about["ratio"] = next(ratios).ratio
    return _row(job, prompt, about, Way.compressed(job.cache, entry.states))


def _row(job: Compressor, prompt: Prompt, about: dict[str, Any], way: Way) -> dict[str, Any]:
    rows = [job.reader.question(job.tokenizer, question) for question, _ in prompt.questions]
    said = answers_by(job.model, job.tokenizer, rows, way) if rows else []
    right = sum(
        word.casefold() in answer.casefold() for (_, word), answer in zip(prompt.questions, said, strict=True)
    )
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
