"""Answers kept, ratio, seconds and bytes of every method on one prompt, and the table of all of them.

Seconds are those of the processor, so that a busy machine does not change them.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent.compression.asking.answers import Way, answers_by
from attangent.compression.capture import run
from attangent.compression.compressor import Compressor
from attangent.compression.distill import Distillation
from benchmarks.child import Unavailable
from benchmarks.compress_prompts import Prompt
from benchmarks.compress_rivals import (
    CARTRIDGE_STEPS,
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

STEPS = 24
OURS = ("recall", "anchors", "plain")
RESULTS = Path(__file__).with_name("compress_results.json")


@dataclass(frozen=True)
class Plan:
    """A method at a size, and how its entry is made."""

    method: str
    size: int
    make: Callable[[], Entry]


def measure_prompt(
    job: Compressor,
    prompt: Prompt,
    sizes: Sequence[int],
    distilled: bool = False,
    known: Collection[tuple[str, int]] = (),
    only: Collection[str] = (),
) -> Iterator[dict[str, Any]]:
    """A row for the full prompt and one for each method and size, as soon as it is there.

    Rows that are `known` are left out; `only` names the methods to measure.
    """
    if ("full prompt", len(job.ids)) not in known:
        bytes_ = job.cache.number_of_bytes
        full = {"method": "full prompt", "size": len(job.ids), "seconds": 0.0, "bytes": bytes_, "ratio": 0.0}
        yield _row(job, prompt, full, Way.full(job.cache))
    ratio = Ratio(job)
    for plan in _plans(job, sizes, distilled):
        if (plan.method, plan.size) in known or (only and plan.method not in only):
            continue
        try:
            yield _measured(job, prompt, plan.make(), ratio)
        except Unavailable as reason:
            print(f"left out: {reason}")


def _plans(job: Compressor, sizes: Sequence[int], distilled: bool) -> list[Plan]:
    """Every method at every size; those that are trained where that is asked for."""
    found = []
    for size in sizes:
        found += [Plan(method, size, partial(_ours, job, method, size)) for method in OURS]
        found += [Plan(press, size, partial(_pressed, job, press, size)) for press in PRESSES]
        found += [
            Plan("Attention Matching", size, partial(attention_matching, job, size)),
            Plan("prompt cut", size, partial(cut, job, size)),
            Plan("summary", size, partial(summary, job, size)),
        ]
        if distilled:
            found += [
                Plan(f"recall, {STEPS} steps", size, partial(_distilled, job, size)),
                Plan(f"CARTRIDGE, {CARTRIDGE_STEPS} steps", size, partial(cartridge, job, size)),
            ]
    return found


def _ours(job: Compressor, method: str, size: int) -> Entry:
    """Our own method; reading counts, and so do scoring and sampling where they were not kept from before."""
    path = job.work.path(f"states-{method}-{size}.safetensors")
    done = path is not None and path.is_file()
    entry = timed(method, size, lambda: job.fit(size, method).states)
    return replace(entry, seconds=None) if done else entry


def _distilled(job: Compressor, size: int) -> Entry:
    plan = Distillation(STEPS)
    return timed(f"recall, {STEPS} steps", size, lambda: job.distill(job.fit(size), plan).states)


def _pressed(job: Compressor, press: str, size: int) -> Entry:
    return kvpressed(job, press, size, Path(job.model.config._name_or_path))


class Ratio:
    """KL(full || other) / KL(full || none) on held-out text; the full prompt and none are asked only once."""

    def __init__(self, job: Compressor):
        self.job = job

    @cached_property
    def full(self) -> Tensor:
        return self._said(Way.full(self.job.cache))

    @cached_property
    def none(self) -> float:
        return self._distance(Way.none())

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
    seconds = None if entry.seconds is None else round(entry.seconds, 1)
    about: dict[str, Any] = {"method": entry.method, "size": entry.size, "seconds": seconds}
    if entry.states is None:
        cache = summarised(job, entry.text or "")
        way = Way.full(cache)
        return _row(job, prompt, about | {"bytes": cache.number_of_bytes, "ratio": ratio.of(way)}, way)
    tensors = [tensor for state in entry.states.values() for tensor in state.state_dict().values()]
    about["bytes"] = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    way = Way.compressed(job.cache, entry.states)
    return _row(job, prompt, about | {"ratio": ratio.of(way)}, way)


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


def rows_of(prompt: str | None = None) -> list[dict[str, Any]]:
    """The rows in the file of results, those of one prompt where it is named."""
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    return [row for row in rows if prompt in (None, row["prompt"])]


def write(new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put rows into the file of results, in the place of those of the same prompt, method and size."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["prompt"], row["method"], row["size"]

    old = rows_of()
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
