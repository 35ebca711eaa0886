"""The commands `tune`, `predict`, `compare` and `solve`. Heavy imports wait until one of them runs."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.errors import AttangentError
from attangent._core.files import check_file, write_whole
from attangent.cli import tuning_options as options
from attangent.cli.common_options import AsJson, Quiet, hint

if TYPE_CHECKING:
    from attangent.tuning.methods import Method
    from attangent.tuning.request import Tuning


def tune(
    out: options.Out,
    model: options.Model = None,
    train: options.Rows = None,
    eval_: options.Evaluation = None,
    task: options.Task = "classification",
    method: options.MethodName = None,
    config: options.Config = None,
    layout: options.Layout = None,
    text_column: options.TextColumns = None,
    label_column: options.LabelColumn = None,
    max_tokens: options.MaxTokens = 128,
    pooling: options.PoolingName = "declared",
    start: options.StartName = "closed-form",
    validation: options.ValidationName = "none",
    search: options.Search = False,
    class_weights: options.ClassWeights = False,
    quantised: options.Quantised = None,
    beside: options.Beside = None,
    top: options.Top = None,
    learning_rate: options.Rate = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    seed: Annotated[int | None, typer.Option(help="The first seed; 0 by default.")] = None,
    seeds: options.Seeds = 1,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tune a model on files and save the adapter, its metrics and settings.

    A run that was cut off goes on from its last checkpoint when the same command is given again. Under
    `torchrun` or `accelerate launch` it uses all their processes.
    """
    shared = dict(locals())
    if model is None or train is None:
        raise AttangentError("give --model and --train")
    from attangent.papers.p1_prefix.head_to_head.settings import training_of
    from attangent.tuning.recipe import Recipe

    given = _read_toml(config, {"method", "training"})
    own = given.get("method", {}) | _set(name=method, top=top, learning_rate=learning_rate)
    tuning = options.request_of(
        shared,
        method=_method(own, shared, quiet or json_),
        training=training_of(given.get("training", {}) | _set(epochs=epochs, batch=batch, seed=seed)),
        recipe=Recipe(start, validation, search),  # pyright: ignore[reportArgumentType]
        quantised=quantised,
        beside=beside,
    )
    _run(tuning, out, seeds, json_, quiet)


def _method(own: dict[str, Any], given: dict[str, Any], quiet: bool) -> "Method":
    """The method with these settings. Where they name none it is the default, which is then said; settings of
    a state are meant for a state."""
    from attangent.tuning.methods import Method, default_for

    if {"name", "ntk"} & set(own) or given["beside"] is not None:
        return Method.from_dict(own)
    kind = "image-classification" if given["train"].is_dir() else given["task"]
    default = default_for(kind)
    if not quiet:
        typer.echo(f"method: {default.why}")
    return Method.from_dict({**default.settings, **own})


def _run(tuning: "Tuning", out: Path, seeds: int, json_: bool, quiet: bool) -> None:
    from attangent.tuning.finetune import finetune
    from attangent.tuning.processes import is_first_process

    silent = quiet or json_ or not is_first_process()
    found = finetune(tuning, out, (lambda metrics: None) if silent else _print_metrics, seeds, silent)
    if json_ and is_first_process():
        typer.echo(json.dumps(found, indent=1))
    elif not silent:
        _print_mean(found, out, tuning.model)


def predict(
    adapter: Annotated[Path, typer.Option(help="A folder that `attangent tune` wrote.")],
    rows: Annotated[
        Path | None, typer.Argument(help="New rows, .txt or images; without it lines from standard input.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv file; without it the answers are printed.")] = None,
    model: Annotated[str | None, typer.Option(help="Where the base model is, if it has moved.")] = None,
    batch: Annotated[int, typer.Option(help="Rows answered at once.")] = 32,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Label new rows with a tuned model: the label and the probability of each label, or a number, as CSV."""
    from attangent._core.checks import check_size
    from attangent.tuning.folders.predicting import answers_table, rows_to_predict
    from attangent.tuning.folders.tuned import load_tuned

    check_size("batch", batch)
    if rows is not None and not rows.exists():
        raise AttangentError(f"there is no {rows}; give a file of rows, or lines on standard input")
    if out is not None:
        check_file(out)
    tuned = load_tuned(adapter, model)
    given = rows_to_predict(tuned, rows or sys.stdin)
    found = tuned.predict(given, batch)
    if out is not None:
        write_whole(out, answers_table(found, given))
    if json_:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1))
    elif out is None:
        typer.echo(answers_table(found, given), nl=False)
    elif not quiet:
        typer.echo(f"{len(found)} answers in {out}")


def _read_toml(path: Path | None, known: set[str]) -> dict[str, Any]:
    from attangent._core.settings import read_toml

    if path is None:
        return {}
    found = read_toml(path)
    if set(found) - known:
        raise AttangentError(
            f"{path} has {', '.join(sorted(set(found) - known))}, expected {', '.join(sorted(known))}"
        )
    return found


def _set(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _print_metrics(metrics: dict[str, Any]) -> None:
    scores = ", ".join(f"{name[5:]} {metrics[name]:.4f}" for name in metrics if name.startswith("eval_"))
    typer.echo(f"seed {metrics['seed']}: {scores}; {metrics['seconds']:.1f} s")
    if "tried" in metrics:
        errors = ", ".join(f"{name} {error:.3f}" for name, error in metrics["tried"].items())
        typer.echo(
            f"chose {metrics['method']}: error on rows kept apart {errors}; "
            f"it is {next(iter(metrics['tried']))} unless another is clearly better"
        )
    if "rates" in metrics:
        _print_search(metrics)
    if "kept" in metrics:
        typer.echo(
            f"kept {metrics['kept']:g} of what was learnt: loss on rows kept apart "
            f"{metrics['validation_loss']:.4f}, before training {metrics['validation_loss_at_start']:.4f}"
        )


def _print_search(metrics: dict[str, Any]) -> None:
    """What was tried on rows kept apart, what was chosen, and why."""
    tried = ", ".join(f"{rate}: {error:.3f}" for rate, error in metrics["rates"].items())
    before = metrics["validation_error_at_start"]
    typer.echo(f"error on rows kept apart by rate: {tried}; before training {before:.3f}")
    share = metrics["trained_share"]
    length = "the whole run" if share == 1 else f"{share:.3g} of the run"
    typer.echo(f"chose the rate {metrics['learning_rate']:g} and {length}, then trained so on all rows")
    if metrics["method"] == "ntk" and "tried" not in metrics:
        typer.echo("whether LoRA would do better on these rows: --method auto --search tries it too")
    if share == 0:
        typer.echo("training did not help on rows kept apart: the classifier alone is kept, as `probe` gives")


def _print_mean(found: list[dict[str, Any]], out: Path, model: str) -> None:
    import statistics

    name = next(name for name in ("eval_accuracy", "eval_rmse", "eval_loss") if name in found[0])
    values = [metrics[name] for metrics in found]
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    seeds = f"{len(values)} seeds" if len(values) > 1 else "1 seed"
    typer.echo(
        f"{found[0]['method']}: {name[5:]} {statistics.fmean(values):.4f}{spread} over {seeds}, "
        f"{found[0]['parameters']:,.0f} parameters and {found[0]['head_parameters']:,.0f} of a head; "
        f"saved in {out}"
    )
    place = out / f"seed-{found[0]['seed']}"
    use = f"generate TEXT --model {model}" if name == "eval_loss" else "predict ROWS"
    hint(f"attangent {use} --adapter {place}")
