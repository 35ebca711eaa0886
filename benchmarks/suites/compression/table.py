"""Answers kept, ratio, seconds and bytes of every method on one prompt, and the tables of all of them.

Seconds are those of the processor, so that a busy machine does not change them.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.files import real_folder
from attangent.compression.capture import run
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.quiz import Answer, answers_by
from benchmarks.harness import folders
from benchmarks.harness.child import Unavailable
from benchmarks.suites.compression.grid import (
    CARTRIDGES,
    DISTILLED,
    EXPORTED,
    MATCHING,
    PRESSES,
    WITH_MASSES,
    size_of,
)
from benchmarks.suites.compression.prompts import Prompt
from benchmarks.suites.compression.rivals import (
    Entry,
    Presses,
    attention_matching,
    cartridge,
    cut,
    equal_anchors,
    matching_by_sizes,
    summarised,
    summary,
    timed,
    weighted_plain,
)

RESULTS = folders.RESULTS / "compress_results.json"
FULL = "full prompt"
Scores = Callable[[], Mapping[str, Tensor]]
"""Scores of another prompt, from which a rival has its sizes by head."""


def measure_prompt(
    job: CompressionRun,
    prompt: Prompt,
    times: Sequence[int],
    methods: Sequence[str],
    known: Collection[tuple[str, int]] = (),
    scores: Scores = dict,
) -> Iterator[dict[str, Any]]:
    """A row for the full prompt and one for each method and size, as soon as it is there.

    times: how many times smaller than the prompt; rows (method, times) that are `known` are left out.
    """
    if (FULL, 1) not in known:
        about = {"seconds": 0.0, "bytes": job.cache.number_of_bytes, "ratio": 0.0}
        yield _row(job, prompt, {"method": FULL, "times": 1, "size": len(job.ids)} | about, None)
    todo = [(method, many) for many in times for method in methods if (method, many) not in known]
    sizes = {many: size_of(len(job.ids), many) for many in times}
    pressed = [(method, sizes[many]) for method, many in todo if method in PRESSES]
    ratio = Ratio(job)
    with tempfile.TemporaryDirectory() as place:
        presses = Presses(job, pressed, Path(place))
        for method, many in todo:
            try:
                entry = _entry(job, method, sizes[many], presses, scores)
                yield _measured(job, prompt, entry, many, ratio)
            except Unavailable as reason:
                print(f"left out: {reason}")


def _entry(job: CompressionRun, method: str, size: int, presses: Presses, scores: Scores) -> Entry:
    if method in PRESSES:
        return presses.entry(method, size)
    if method == MATCHING[1]:
        return matching_by_sizes(job, size, dict(scores()))
    if method in CARTRIDGES:
        return replace(cartridge(job, size, CARTRIDGES[method]), method=method)
    if method in (*DISTILLED, *EXPORTED):
        return _distilled(job, method, size)
    rivals = {
        MATCHING[0]: attention_matching,
        WITH_MASSES: weighted_plain,
        "anchors": equal_anchors,
        "prompt cut": cut,
        "summary": summary,
    }
    return rivals[method](job, size) if method in rivals else _ours(job, method, size)


def _ours(job: CompressionRun, method: str, size: int) -> Entry:
    """Our own method from the beginning: seconds of reading, sampling, scoring and fitting, each of which is
    done once for a prompt and counts for every size."""
    own = _own(job)
    parts = {
        "texts": lambda: own.calibration,
        "scores": lambda: own.scores,
        f"{method}-{size}": lambda: own.fit(size, method),
    }
    seconds = [_noted(own, f"seconds-{part}", partial(_seconds, work)) for part, work in parts.items()]
    return Entry(method, size, sum(seconds), own.fit(size, method).states)


def _own(job: CompressionRun) -> CompressionRun:
    """The same prompt in a folder of our own method, so that nothing of it was made for somebody else."""
    return job if job.folder is None else replace(job, folder=real_folder(job.folder / "ours"))


def _distilled(job: CompressionRun, method: str, size: int) -> Entry:
    """One of our own methods, then distillation for as long as the text needs."""
    start = method.partition(",")[0]
    before, own = _ours(job, start, size).seconds or 0.0, _own(job)
    entry = timed(method, size, lambda: own.distill(own.fit(size, start)).states)
    return replace(entry, seconds=before + (entry.seconds or 0.0))


def _noted(job: CompressionRun, name: str, make: Callable[[], Any]) -> Any:
    """What was noted under this name, or what `make` gives, which is noted."""
    stored = job.resume.load_json(name)
    return job.resume.save_json(name, make()) if stored is None else stored


def _seconds(work: Callable[[], Any]) -> float:
    """Processor seconds that some work takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


class Ratio:
    """KL(full || other) / KL(full || none) on held-out text; the full prompt and none are asked only once."""

    def __init__(self, job: CompressionRun):
        self.job = job

    @cached_property
    def full(self) -> Tensor:
        return self._said(PromptForm.full(self.job.cache))

    @cached_property
    def none(self) -> float:
        return self._distance(PromptForm.none())

    def of(self, way: PromptForm) -> float:
        return self._distance(way) / self.none

    def _said(self, way: PromptForm) -> Tensor:
        text = self.job.held_out
        with torch.no_grad():
            logits = run(self.job.model, text.ids, way.offset, way.handler).logits
        return logits[text.valid].float().log_softmax(dim=-1)

    def _distance(self, way: PromptForm) -> float:
        return (self.full.exp() * (self.full - self._said(way))).sum(dim=-1).mean().item()


def _measured(job: CompressionRun, prompt: Prompt, entry: Entry, times: int, ratio: Ratio) -> dict[str, Any]:
    seconds = None if entry.seconds is None else round(entry.seconds, 1)
    about = {"method": entry.method, "times": times, "size": entry.size, "seconds": seconds}
    if entry.states is None:
        cache = summarised(job, entry.text or "")
        way, bytes_ = PromptForm.full(cache), cache.number_of_bytes
    else:
        tensors = [tensor for state in entry.states.values() for tensor in state.state_dict().values()]
        bytes_ = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        way = PromptForm.compressed(job.cache, entry.states)
    return _row(job, prompt, about | {"bytes": bytes_, "ratio": round(ratio.of(way), 4)}, way)


def _row(
    job: CompressionRun, prompt: Prompt, about: dict[str, Any], way: PromptForm | None
) -> dict[str, Any]:
    """One row; `way` is None for the full prompt, whose answers are known to all others."""
    full = _noted(job, "said-full", lambda: _said(job, prompt, PromptForm.full(job.cache)))
    none = _noted(job, "said-none", lambda: _said(job, prompt, PromptForm.none()))
    said = full if way is None else _said(job, prompt, way)
    answers = list(zip(prompt.questions, full, said, none, strict=True))
    right = [_right(*answer) for answer in answers]
    found = {
        "prompt": prompt.name,
        "tokens": len(job.ids),
        **about,
        "answers": sum(right),
        "questions": len(right),
        "threads": torch.get_num_threads(),
    }
    if any(pattern.startswith("####") for _, pattern in prompt.questions):
        found["same"] = sum(_number(one) == _number(other) is not None for _, other, one, _ in answers)
    print(json.dumps(found), flush=True)
    return found


def _said(job: CompressionRun, prompt: Prompt, way: PromptForm) -> list[str]:
    """The answer to every question, up to the first paragraph's end where the prompt says so."""
    rows = [job.reader.question(job.tokenizer, question) for question, _ in prompt.questions]
    said = answers_by(job.model, job.tokenizer, rows, way, prompt.tokens) if rows else []
    return [answer.split("\n\n")[0] for answer in said] if prompt.paragraph else said


def _right(question: tuple[str, str], full: str, said: str, none: str) -> bool:
    """Whether an answer matches what was expected, else has most of what the full prompt brings in."""
    text, pattern = question
    if pattern:
        return re.search(pattern, said, re.IGNORECASE) is not None
    return Answer(text, full, said, none).holds(said)


def _number(answer: str) -> str | None:
    """The number that a worked answer ends with."""
    found = re.search(r"#### ?(-?[\d,.]*\d)", answer)
    return found and found[1]


def rows_of(prompt: str | None = None) -> list[dict[str, Any]]:
    """The rows in the file of results, those of one prompt where it is named."""
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    return [row for row in rows if prompt in (None, row["prompt"])]


def write(new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put rows into the file of results, in the place of those of the same prompt, method and size."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["prompt"], row["method"], row["times"]

    old = rows_of()
    replaced = {key(row) for row in new}
    rows = [row for row in old if key(row) not in replaced] + list(new)
    text = ",\n".join(json.dumps(row) for row in rows)
    RESULTS.write_text(f'{{"rows": [\n{text}\n]}}\n')
    return rows
