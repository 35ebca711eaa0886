"""Tune a model on files: read, encode, adapt, train, score, save. What `attangent tune` calls.

Runs unchanged on one process or under `torchrun` and `accelerate launch`, as transformers' Trainer does.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, remove_leftovers, write_json
from attangent.tuning.checkpoints import drop_checkpoints
from attangent.tuning.folders.export import complete
from attangent.tuning.methods import Method
from attangent.tuning.prepared import Ground, class_weights, prepare
from attangent.tuning.processes import is_first_process
from attangent.tuning.progress import Watch
from attangent.tuning.request import Tuning, differences, settings_of
from attangent.tuning.running import Outcome, Task, run_method, seek_best
from attangent.tuning.runs import TuningRuns
from attangent.tuning.tasks import NEEDS, TaskKind
from attangent.tuning.training import score

__all__ = ["Tuning", "finetune"]


def finetune(
    tuning: Tuning,
    out: Path,
    report: Callable[[dict[str, Any]], None] = lambda metrics: None,
    seeds: int = 1,
    quiet: bool = True,
) -> TuningRuns:
    """Tune with seeds s, s+1, ... (s that of the training) into `out`/seed-N; the metrics of each.

    A seed that is done is not computed again; one that was cut off goes on from its last checkpoint.
    """
    check_size("seeds", seeds)
    first = tuning.training.seed
    found = TuningRuns()
    with Watch(quiet) as watch:
        for seed in range(first, first + seeds):
            own = replace(tuning, training=replace(tuning.training, seed=seed))
            found.append(_one(own, out / f"seed-{seed}", watch))
            report(found[-1])
    return found


def _one(tuning: Tuning, folder: Path, watch: Watch) -> dict[str, Any]:
    settings = settings_of(tuning)
    done = _finished(folder, settings)
    if done is not None:
        return done
    ground = prepare(tuning)
    with _held(folder):
        if is_first_process():
            remove_leftovers(folder)
            write_json(folder / "settings.json", settings)
        return _trained(tuning, ground, folder, watch)


def _trained(tuning: Tuning, ground: Ground, folder: Path, watch: Watch) -> dict[str, Any]:
    weights = class_weights(ground) if tuning.class_weights else None
    task = Task(ground.model, tuning.kind, ground.train, ground.collate, weights)
    chosen, tried = _best(tuning, task, folder, watch)
    method, trainer = chosen.method, chosen.outcome.trainer
    scores = _in_words(score(trainer, ground.evaluate, tuning.kind), tuning.kind, ground)
    metrics = {
        "seed": tuning.training.seed,
        "method": method.name,
        **{f"eval_{name}": value for name, value in scores.items()},
        **chosen.outcome.numbers,
        **({"tried": tried} if tried else {}),
    }
    if trainer.is_world_process_zero():
        complete(folder, chosen.outcome.model, ground, replace(tuning, method=method), metrics)
        write_json(folder / "metrics.json", metrics)
        drop_checkpoints(folder)
    trainer.accelerator.wait_for_everyone()
    return metrics


def _in_words(scores: dict[str, float], kind: TaskKind, ground: Ground) -> dict[str, float]:
    """The scores with the root of the mean squared error in the values' own units, where there are values."""
    if not NEEDS[kind].values:
        return scores
    return {**scores, "rmse": ground.units.scale * math.sqrt(scores["loss"])}


@dataclass(frozen=True)
class _Candidate:
    method: Method
    outcome: Outcome


def _best(tuning: Tuning, task: Task, folder: Path, watch: Watch) -> tuple[_Candidate, dict[str, float]]:
    """The method's outcome; for `auto` that of the first candidate, unless a later one is clearly better."""
    method = tuning.method
    show = partial(_shown, tuning.training.seed, watch)
    if len(method.technique.candidates(method)) == 1:
        outcome = run_method(task, method, tuning.training, tuning.recipe, folder, show(method))
        return _Candidate(method, outcome), {}
    method, sought, tried = seek_best(task, method, tuning.training, tuning.recipe, folder, show)
    return _Candidate(method, sought.outcome()), tried


def _shown(seed: int, watch: Watch, method: Method) -> Callable[[int, int, float], None] | None:
    return partial(watch.step, f"seed {seed}, {method.name}") if is_first_process() else None


def _finished(folder: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The metrics of a run that is done; refused where the folder holds a run with other settings."""
    written = _json(folder / "settings.json")
    metrics = _json(folder / "metrics.json")
    if written is None:
        return None
    odd = differences(written, settings)
    if metrics is None:  # a run that was cut off goes on only with every setting the same
        odd += [f"{name}: not there, now {settings[name]!r}" for name in sorted(set(settings) - set(written))]
    if odd:
        raise AttangentError(
            f"{folder} holds a run with other settings ({'; '.join(odd[:6])}); "
            "give another folder or remove it"
        )
    return metrics


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise AttangentError(f"{path} is not a run's; give another folder or remove it")
    return found


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make the folder and hold it for writing, by the first process of the run."""
    real_folder(folder)
    with only_writer(folder, "tune") if is_first_process() else contextlib.nullcontext():
        yield
