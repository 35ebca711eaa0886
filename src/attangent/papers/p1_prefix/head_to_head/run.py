"""Tuning methods side by side: the same splits, head, epochs and number of learning rates for each.

Every run is one line of `runs.jsonl`; a comparison that was cut off goes on where it stopped.
"""

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, write_whole
from attangent._core.random import generator
from attangent.papers.p1_prefix.head_to_head.settings import Comparison, Entrant, Trial
from attangent.papers.p1_prefix.head_to_head.trunk import split_trunk
from attangent.tuning.data.images import EncodedImages, ImageTask, Pixels, read_images
from attangent.tuning.data.text import TextTask, read_task
from attangent.tuning.encoding import Padding, encode_task, stack
from attangent.tuning.loading import load_model, load_tokenizer, model_limit, pad_with, preprocessor_of
from attangent.tuning.pooling import resolved_pooling, use_mean_pooling
from attangent.tuning.recipe import PLAIN, Recipe
from attangent.tuning.running import Task, run_method
from attangent.tuning.tasks import TaskKind
from attangent.tuning.training import Collate, Training, score

Run = dict[str, Any]


def compare(comparison: Comparison, out: Path, report: Callable[[Run], None] = lambda run: None) -> list[Run]:
    """All runs, those of `out`/runs.jsonl and new ones, which are appended there and reported as they end.

    The learning rate of an entrant on a task is the one with the best validation accuracy on the first seed's
    split; the other seeds use it.
    """
    real_folder(out)
    with only_writer(out, "compare"):
        return _compared(comparison, out, report)


def _compared(comparison: Comparison, out: Path, report: Callable[[Run], None]) -> list[Run]:
    runs = read_runs(out / "runs.jsonl")
    for seed in comparison.drawn:
        for trial in comparison.trials:
            for run in _missing_runs(comparison, trial, seed, runs):
                runs.append(run)
                write_whole(out / "runs.jsonl", "".join(json.dumps(one) + "\n" for one in runs))
                report(run)
    return [run for run in runs if _belongs(run, comparison)]


def read_runs(path: Path) -> list[Run]:
    """The runs of a file; a last line that was cut off is left out."""
    runs = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            runs.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return runs


def chosen_rate(entrant: Entrant, trial: Trial, runs: list[Run], first_seed: int = 0) -> float | None:
    """The entrant's best rate on the first seed's validation data; None as long as some are not run."""
    found = {run["rate"]: run["validation"] for run in _of(runs, entrant, trial, first_seed)}
    if not set(entrant.rates) <= set(found):
        return None
    return max(entrant.rates, key=lambda rate: (found[rate]["accuracy"], -found[rate]["loss"]))


def chosen_runs(comparison: Comparison, runs: list[Run]) -> list[Run]:
    """The runs at the rates that were chosen: one for each task, entrant and seed that is done."""
    kept = []
    for trial in comparison.trials:
        for entrant in comparison.entrants:
            rate = chosen_rate(entrant, trial, runs, comparison.first_seed)
            for seed in comparison.drawn if rate is not None else ():
                kept += [run for run in _of(runs, entrant, trial, seed) if run["rate"] == rate][:1]
    return kept


def _of(runs: list[Run], entrant: Entrant, trial: Trial, seed: int) -> list[Run]:
    key = (trial.name, entrant.label, seed)
    return [run for run in runs if (run["task"], run["entrant"], run["seed"]) == key]


def _belongs(run: Run, comparison: Comparison) -> bool:
    tasks, labels = {t.name for t in comparison.trials}, {e.label for e in comparison.entrants}
    return run["task"] in tasks and run["entrant"] in labels and run["seed"] in comparison.drawn


def _missing_runs(comparison: Comparison, trial: Trial, seed: int, runs: list[Run]) -> Iterator[Run]:
    done = {(run["entrant"], run["rate"]) for run in runs if (run["task"], run["seed"]) == (trial.name, seed)}
    prepared = None
    for entrant in comparison.entrants:
        first = comparison.first_seed
        rates = entrant.rates if seed == first else (chosen_rate(entrant, trial, runs, first),)
        for rate in rates:
            if rate is not None and (entrant.label, rate) not in done:
                prepared = prepared or prepare_trial(comparison, trial, seed)
                yield one_run(
                    trial.name, prepared, entrant, rate, comparison.training, seed, comparison.recipe
                )


@dataclass(frozen=True)
class PreparedTrial:
    """A model and the rows of one split, ready for any entrant."""

    model: Any
    kind: TaskKind
    collate: Collate
    train: list[dict[str, Any]]
    validation: list[dict[str, Any]]
    test: list[dict[str, Any]]


def prepare_trial(comparison: Comparison, trial: Trial, seed: int) -> PreparedTrial:
    """Read, split and encode the task; run the trunk where only top layers train."""
    parts = split_task(trial, seed)
    kind: TaskKind = "image-classification" if isinstance(parts[0], ImageTask) else "classification"
    model = load_model(comparison.model, kind, parts[0].labels, seed)
    if kind == "classification" and resolved_pooling(comparison.pooling, comparison.model) == "mean":
        use_mean_pooling(model)
    rows, collate = _encoded(comparison.model, model, parts, trial.max_tokens)
    if comparison.top is not None:
        trunk, model = split_trunk(model, comparison.top)
        rows = [trunk.encode(part, collate) for part in rows]
    return PreparedTrial(model, kind, collate, *rows)


def one_run(
    task: str,
    prepared: PreparedTrial,
    entrant: Entrant,
    rate: float,
    training: Training,
    seed: int,
    recipe: Recipe = PLAIN,
) -> Run:
    """Train the entrant at this rate and score it on the validation and test rows."""
    given = Task(copy.deepcopy(prepared.model), prepared.kind, prepared.train, prepared.collate)
    own = replace(training, seed=seed, checkpoint_steps=0)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_method(given, entrant.at(rate), own, recipe, Path(folder))
        found = {name: score(outcome.trainer, rows, prepared.kind) for name, rows in _held_out(prepared)}
    return {"task": task, "entrant": entrant.label, "seed": seed, **found, **outcome.numbers, "rate": rate}


def _held_out(prepared: PreparedTrial) -> list[tuple[str, list[dict[str, Any]]]]:
    return [("validation", prepared.validation), ("test", prepared.test)]


def split_task(trial: Trial, seed: int) -> tuple[Any, Any, Any]:
    """Training, validation and test examples of this seed; disjoint, and other ones for another seed."""
    pool = _read(trial, trial.files)
    order = torch.randperm(len(pool), generator=generator(seed, "split")).tolist()
    needed = trial.train + trial.validation + (0 if trial.eval_files else trial.test)
    if needed > len(pool):
        raise AttangentError(
            f"task {trial.name} has {len(pool)} examples, {needed} were asked for; ask for fewer"
        )
    train, rest = order[: trial.train], order[trial.train :]
    validation = rest[: trial.validation]
    if not trial.eval_files:
        return pool.take(train), pool.take(validation), pool.take(rest[trial.validation :][: trial.test])
    held = _read(trial, trial.eval_files, pool.labels)
    chosen = torch.randperm(len(held), generator=generator(seed, "test split")).tolist()[: trial.test]
    return pool.take(train), pool.take(validation), held.take(chosen)


def _read(trial: Trial, files: tuple[Path, ...], labels: tuple[str, ...] | None = None) -> Any:
    if all(path.is_dir() for path in files):
        parts = [read_images(path, labels=labels) for path in files]
        names = parts[0].labels
        return ImageTask(
            sum((part.files for part in parts), ()), sum((part.targets for part in parts), ()), names
        )
    return read_task(files, layout=trial.layout, labels=labels)


def _encoded(
    name: str, model: Any, parts: Any, max_tokens: int
) -> tuple[list[list[dict[str, Any]]], Collate]:
    if isinstance(parts[0], TextTask):
        tokenizer = load_tokenizer(name)
        pad_with(model, tokenizer)
        rows = [encode_task(part, tokenizer, max_tokens, model_limit(model)) for part in parts]
        return rows, Padding(tokenizer.pad_token_id)
    pixels = Pixels.of(model.config, preprocessor_of(name))
    images = [EncodedImages(part, pixels) for part in parts]
    return [[part[i] for i in range(len(part))] for part in images], stack


def pool_size(path: Path) -> int:
    """How many examples a file or a folder of images holds."""
    return len(read_images(path) if path.is_dir() else read_task(path))
