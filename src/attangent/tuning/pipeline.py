"""Tune a model on files: read, encode, adapt, train, score, save.

Works in one process or under `torchrun` and `accelerate launch`, as transformers' Trainer does.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._core.checks import check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, remove_leftovers, write_json
from attangent._core.plots import bars, finished, in_style, one_panel
from attangent.tuning.folders.export import export_model, remove_checkpoints
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask, prepare
from attangent.tuning.request import TuningRequest, differences
from attangent.tuning.running import TrainedMethod, run_method
from attangent.tuning.selection import choose_method, train_choice
from attangent.tuning.tasks import NEEDS
from attangent.tuning.trainer import StepReport, TrainingProgress, is_first_process
from attangent.tuning.training import score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCORES = ("eval_accuracy", "eval_rmse", "eval_loss")


class TuningRuns(list[dict[str, Any]]):
    """Metrics of each seed: a plain list that notebooks show as a table.

    Attributes:
        score: The key of the main score: eval_accuracy, eval_rmse or eval_loss.

    Example:
        >>> TuningRuns([{"seed": 0, "eval_accuracy": 0.5}])
        TuningRuns(seeds=1, accuracy=[0.5])
    """

    @property
    def score(self) -> str:
        """The key of the main score: eval_accuracy, eval_rmse or eval_loss."""
        return next((name for name in _SCORES if self and name in self[0]), "")

    def __repr__(self) -> str:
        values = [round(metrics[self.score], 4) for metrics in self] if self.score else []
        return brief(self, seeds=len(self), **({self.score[5:]: values[:4]} if values else {}))

    def _repr_html_(self) -> str:
        names = [name for name in (self[0] if self else {}) if not isinstance(self[0][name], dict)]
        rows = [tuple(metrics.get(name) for name in names) for metrics in self]
        return table_html(f"{len(self)} tuning runs", [_title(name) for name in names], rows)

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the score of each seed.

        Args:
            path: Also write the figure to this file.

        Returns:
            The figure.

        Raises:
            AttangentError: If there is no run.
        """
        if not self.score:
            raise AttangentError("there is no run with a score to draw; tune first.")
        figure, axes = one_panel((6.0, 1.0 + 0.35 * len(self)))
        scores = {f"seed {metrics['seed']}": float(metrics[self.score]) for metrics in self}
        bars(axes, scores, _title(self.score))
        return finished(figure, path)


def _title(name: str) -> str:
    return name.removeprefix("eval_").replace("_", " ")


def tune(
    request: TuningRequest,
    out: str | PathLike[str],
    report: Callable[[dict[str, Any]], None] = lambda metrics: None,
    seeds: int = 1,
    quiet: bool = True,
) -> TuningRuns:
    """Tune a model with one or more seeds and save the adapters, metrics and settings.

    A finished seed is not computed again; an interrupted one resumes from its last checkpoint.

    Args:
        request: The model, its data, the method and the training.
        out: Folder of the run; each seed has a subfolder `seed-N`.
        report: Called with the metrics of each seed.
        seeds: Number of seeds, counted from `request.training.seed`.
        quiet: Show no progress.

    Returns:
        The metrics of each seed.

    Raises:
        AttangentError: If the data cannot be used, or `out` holds a run with other settings.

    Example:
        >>> request = TuningRequest("bert-base-uncased", Path("rows.csv"))  # doctest: +SKIP
        >>> tune(request, "run")[0]["eval_accuracy"]  # doctest: +SKIP
        0.93
    """
    runs = TuningRuns()
    for metrics in tune_seeds(request, Path(out), seeds, quiet):
        runs.append(metrics)
        report(metrics)
    return runs


def tune_seeds(
    request: TuningRequest, out: Path, seeds: int = 1, quiet: bool = True
) -> Iterator[dict[str, Any]]:
    """Tune with one seed after another and yield the metrics of each; see `tune`."""
    check_size("seeds", seeds)
    first = request.training.seed
    with TrainingProgress(quiet) as progress:
        for seed in range(first, first + seeds):
            seeded = replace(request, training=replace(request.training, seed=seed))
            yield _tune_seed(seeded, out / f"seed-{seed}", progress)


def _tune_seed(request: TuningRequest, folder: Path, progress: TrainingProgress) -> dict[str, Any]:
    settings = request.as_dict()
    metrics = _finished_metrics(folder, settings)
    if metrics is not None:
        return metrics
    task = prepare(request)
    with _locked(folder):
        if is_first_process():
            remove_leftovers(folder)
            write_json(folder / "settings.json", settings)
        return _train_and_save(request, task, folder, progress)


def _train_and_save(
    request: TuningRequest, task: PreparedTask, folder: Path, progress: TrainingProgress
) -> dict[str, Any]:
    result, tried = _train(request, task, folder, progress)
    scores = score(result.trainer, task.evaluate, task.kind)
    if NEEDS[task.kind].values:
        scores["rmse"] = task.units.scale * math.sqrt(scores["loss"])
    metrics = {
        "seed": request.training.seed,
        "method": result.method.name,
        **{f"eval_{name}": value for name, value in scores.items()},
        **result.metrics,
        **({"tried": tried} if tried else {}),
    }
    if result.trainer.is_world_process_zero():
        export_model(folder, result.model, task, replace(request, method=result.method), metrics)
        write_json(folder / "metrics.json", metrics)
        remove_checkpoints(folder)
    result.trainer.accelerator.wait_for_everyone()
    return metrics


def _train(
    request: TuningRequest, task: PreparedTask, folder: Path, progress: TrainingProgress
) -> tuple[TrainedMethod, dict[str, float]]:
    """Train the method; `auto` also returns the held-out error of each candidate."""
    method = request.method
    report_for = partial(_step_report, request.training.seed, progress)
    if len(method.technique.candidates(method)) == 1:
        return run_method(task, method, request.training, request.start, folder, report_for(method)), {}
    trial, tried = choose_method(task, method, request.training, request.start, folder, report_for)
    report = report_for(trial.started.method)
    return train_choice(trial, task, request.start, folder, report), tried


def _step_report(seed: int, progress: TrainingProgress, method: Method) -> StepReport | None:
    return partial(progress.step, f"seed {seed}, {method.name}") if is_first_process() else None


def _finished_metrics(folder: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return the metrics of a finished run; raise if the folder holds a run with other settings."""
    written = _read_run_file(folder / "settings.json")
    metrics = _read_run_file(folder / "metrics.json")
    if written is None:
        return None
    changes = differences(written, settings)
    if metrics is None:  # an interrupted run resumes only with exactly the same settings
        added = sorted(set(settings) - set(written))
        changes += [f"{name}: missing, now {settings[name]!r}" for name in added]
    if changes:
        raise AttangentError(
            f"{folder} holds a run with other settings ({'; '.join(changes[:6])}); use another folder or "
            "remove it."
        )
    return metrics


def _read_run_file(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError):
        content = None
    if not isinstance(content, dict):
        raise AttangentError(f"{path} was not written by `attangent tune`; use another folder or remove it.")
    return content


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make the folder and lock it for writing, in the first process of the run."""
    real_folder(folder)
    with only_writer(folder, "tune") if is_first_process() else contextlib.nullcontext():
        yield
