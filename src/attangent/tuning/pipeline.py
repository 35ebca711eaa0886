"""Tune a model on files: read, encode, adapt, train, score, save.

Works in one process or under `torchrun` and `accelerate launch`, as transformers' Trainer does.
"""

import contextlib
import json
import shutil
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
from attangent.tuning.completions import answer_rows, write_samples
from attangent.tuning.evaluation import gain_of_training, scores_of, write_findings
from attangent.tuning.folders.export import export_model, remove_checkpoints
from attangent.tuning.prepared import PreparedTask, prepare
from attangent.tuning.request import TuningRequest, differences
from attangent.tuning.running import TrainedMethod, run_method
from attangent.tuning.tasks import NEEDS
from attangent.tuning.trainer import TrainingProgress, is_first_process
from attangent.tuning.training import outputs_of, score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Subfolder of the run that is scored, and its result, if the saved model is trained on all rows.
_SCORING = "scoring"
_SCORES_FILE = "scores.json"
# Sample answers in the metrics.
_SHOWN = 3
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

    Without `request.evaluate`, a fifth of the rows is held out and scored; then the model that is saved is
    trained on all rows, unless `request.keep_holdout` is set. A finished seed is not computed again;
    an interrupted one resumes from its last checkpoint.

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
    progress.stage(f"seed {request.training.seed}: reading rows, loading the model")
    task = prepare(request)
    with _locked(folder):
        if is_first_process():
            remove_leftovers(folder)
            write_json(folder / "settings.json", settings)
        metrics = _read_run_file(folder / _SCORES_FILE)
        if metrics is None:
            part = folder / _SCORING if request.retrains else folder
            result = _train(request, task, part, progress)
            metrics = _score(request, task, result, folder)
            if not request.retrains:
                return _save(request, task, result, metrics, folder)
            _write_scores(result.trainer, metrics, folder)
            del result
        if metrics.get("best_epoch"):
            request = replace(request, training=replace(request.training, epochs=metrics["best_epoch"]))
        task = prepare(request, hold_out=False)
        result = _train(request, task, folder, progress, "all rows")
        cost = {"seconds": metrics["seconds"] + result.metrics["seconds"], "rows_saved": len(task.train)}
        return _save(request, task, result, metrics | cost, folder)


def _train(
    request: TuningRequest, task: PreparedTask, folder: Path, progress: TrainingProgress, rows: str = ""
) -> TrainedMethod:
    name = ", ".join(part for part in (f"seed {request.training.seed}", request.method.name, rows) if part)
    if NEEDS[task.kind].classifier:
        progress.stage(f"{name}: fitting the classifier in closed form")
    report = partial(progress.step, name) if is_first_process() else None
    return run_method(task, request.method, request.training, request.start, folder, report)


def _score(request: TuningRequest, task: PreparedTask, result: TrainedMethod, folder: Path) -> dict[str, Any]:
    """Score a model on the held-out rows, and write the confusion matrix and the wrong rows."""
    about = {"seed": request.training.seed, "method": request.method.name}
    if not NEEDS[task.kind].classifier:
        scores: dict[str, Any] = {"eval_loss": score(result.trainer, task.evaluate, task.kind)["loss"]}
        scores |= answer_rows(result.model, task)
        if result.trainer.is_world_process_zero() and "samples" in scores:
            write_samples(folder, scores["samples"])
            scores["samples"] = scores["samples"][:_SHOWN]
        return about | scores | result.metrics | dict(task.facts)
    outputs = outputs_of(result.trainer, task.evaluate)
    scores = scores_of(task, outputs)
    if result.closed_form is not None:
        scores |= gain_of_training(task, outputs, result.closed_form)
    if result.trainer.is_world_process_zero():
        write_findings(folder, task, outputs)
    columns = {"text_columns": list(task.text_columns)} if task.text_columns else {}
    return about | scores | result.metrics | dict(task.facts) | columns


def _write_scores(trainer: Any, metrics: dict[str, Any], folder: Path) -> None:
    """Write the scores, so that a resumed run starts with the training on all rows."""
    if trainer.is_world_process_zero():
        write_json(folder / _SCORES_FILE, metrics)
        shutil.rmtree(folder / _SCORING, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()


def _save(
    request: TuningRequest, task: PreparedTask, result: TrainedMethod, metrics: dict[str, Any], folder: Path
) -> dict[str, Any]:
    if result.trainer.is_world_process_zero():
        export_model(folder, result.model, task, request, metrics)
        write_json(folder / "metrics.json", metrics)
        remove_checkpoints(folder)
        (folder / _SCORES_FILE).unlink(missing_ok=True)
    result.trainer.accelerator.wait_for_everyone()
    return metrics


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
