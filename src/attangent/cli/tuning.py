"""The commands `tune` and `predict`. Heavy imports wait until one of them runs."""

import json
import math
import statistics
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attangent._core.checks import check_names, check_size
from attangent._core.errors import AttangentError
from attangent._core.files import read_toml, settings_of, write_whole
from attangent._core.tables import check_table
from attangent.cli.common_options import AsJson, Quiet

if TYPE_CHECKING:
    from attangent.tuning import Method, TextColumns

Task = Literal["classification", "regression", "causal-lm"]
MethodName = Literal["ntk", "lora", "prefix", "head", "probe", "full", "ntk+lora", "peft"]
_MAX_TOKENS = 128
_LISTED_CLASSES = 5
_WITHOUT_TRAINING = ("batch", "bf16", "seed")
"""Settings of the training that methods in closed form read as well."""


def tune(
    model: Annotated[str, typer.Option(help="Model to tune: a folder or a Hugging Face id.")],
    train: Annotated[
        Path, typer.Option(help="Rows (.jsonl, .csv, .tsv, .parquet) or a folder with images by class.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for adapters, metrics and checkpoints.")],
    eval_: Annotated[
        Path | None,
        typer.Option("--eval", help="Rows to score on.", show_default="a fifth of the training rows"),
    ] = None,
    task: Annotated[Task, typer.Option(help="Task to learn; folders of images are always classified.")] = (
        "classification"
    ),
    method: Annotated[
        MethodName | str | None,
        typer.Option(help="Tuning method.", show_default="lora"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the tables method, method.ntk and training.")
    ] = None,
    text_column: Annotated[
        list[str] | None,
        typer.Option(help="Column with text; may be repeated.", show_default="text, or the only one"),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the label.", show_default="label")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(help="Maximum tokens per text column; per row for causal-lm.")
    ] = _MAX_TOKENS,
    class_weights: Annotated[
        bool, typer.Option("--class-weights", help="Weigh all classes the same in the loss.")
    ] = False,
    quantised: Annotated[
        Literal["int8"] | None, typer.Option(help="Hold the frozen weights in 8 bits (needs torchao).")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate.", show_default="depends on the method")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the training rows.", show_default="4")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Rows per step and process.", show_default="16")] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds to run.")] = 1,
    keep_holdout: Annotated[
        bool,
        typer.Option("--keep-holdout", help="Do not train the saved model on the held-out rows."),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="First seed of all random draws.", show_default="0")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="For causal-lm: do not use the model's chat template.")
    ] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tune a model on your files; save the adapter, its metrics and its settings.

    Without --eval, a fifth of the rows is held out and scored; then the saved model is trained on all rows.
    Repeat the same command to resume an interrupted run. Under `torchrun` or `accelerate launch`, all
    processes take part.
    """
    from attangent.tuning.pipeline import tune_seeds
    from attangent.tuning.prepared import check_rows
    from attangent.tuning.request import TrainingSettings, TuningRequest
    from attangent.tuning.trainer import is_first_process

    silent = quiet or json_ or not is_first_process()
    settings = _read_config(config)
    chosen = settings.pop("method") | _set(name=method, learning_rate=learning_rate)
    training = settings.pop("training") | _set(epochs=epochs, batch=batch, seed=seed)
    kind = "image-classification" if train.is_dir() else task
    columns = _set(text_column=text_column, label_column=label_column)
    cut = max_tokens if max_tokens != _MAX_TOKENS else None
    if kind == "image-classification":
        _refuse("images", columns | _set(max_tokens=cut, task=task if task != "classification" else None))
    if kind == "causal-lm":
        _refuse("causal-lm, which reads the columns prompt and completion", columns)
    tuner = _method(chosen, kind)
    if not tuner.technique.trains:
        ignored = [f"training.{name}" for name in training if name not in _WITHOUT_TRAINING]
        _refuse(f"the method {tuner.name}", [*_set(epochs=epochs), *ignored])
    request = TuningRequest(
        model,
        train,
        eval_,
        task,
        max_tokens,
        method=tuner,
        training=settings_of(TrainingSettings, training, "training"),
        columns=_columns(text_column, label_column),
        class_weights=class_weights,
        keep_holdout=keep_holdout,
        plain=plain,
        quantised=quantised,
    )
    rows = check_rows(request)
    if not silent:
        if not _is_named(chosen):
            typer.echo(f"method: {tuner.name}; see --method for others")
        typer.echo(_rows_line(rows, label_column or "label"))
    runs = []
    for metrics in tune_seeds(request, out, seeds, silent):
        runs.append(metrics)
        if not silent:
            _print_metrics(metrics, out, max_tokens)
    if json_ and is_first_process():
        typer.echo(json.dumps(runs, indent=1))
    elif not silent:
        _print_summary(runs, out)


def _read_config(path: Path | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"method": {}, "training": {}}
    if path is None:
        return settings
    settings |= read_toml(path)
    check_names(settings, ("method", "training"), str(path))
    return settings


def _refuse(kind: str, options: Iterable[str]) -> None:
    """Raise if options, or settings of a table such as training.epochs, are set that a run would ignore."""
    for name in options:
        label = name if "." in name else f"--{name.replace('_', '-')}"
        raise AttangentError(f"{label} has no effect on {kind}; leave it out")


def _set(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _is_named(chosen: dict[str, Any]) -> bool:
    return bool({"name", "ntk"} & set(chosen))


def _method(chosen: dict[str, Any], kind: Any) -> "Method":
    """Build the method; if the settings name none, use the default."""
    from attangent.tuning.methods import Method, default_settings

    return Method.from_dict(chosen if _is_named(chosen) else {**default_settings(kind), **chosen})


def _columns(text: list[str] | None, label: str | None) -> "TextColumns | None":
    from attangent.tuning.data.columns import TextColumns

    return TextColumns(tuple(text or ()), label or "label") if text or label else None


def _rows_line(data: Any, label_column: str) -> str:
    """Say what was read: the number of rows, their text columns and their labels, numbers or completions."""
    if isinstance(data, list):
        return f"{len(data)} rows to complete"
    texts = f", texts from the column {', '.join(data.columns)}" if getattr(data, "columns", ()) else ""
    if not data.labels:
        targets = f"numbers from {min(data.targets):g} to {max(data.targets):g} in {label_column}"
        return f"{len(data)} rows{texts}, {targets}"
    counts = [data.targets.count(index) for index in range(len(data.labels))]
    if len(counts) <= _LISTED_CLASSES:
        named = zip(data.labels, counts, strict=True)
        classes = "classes: " + ", ".join(f"{label!s:.40} ({count} rows)" for label, count in named)
    else:
        classes = f"{len(counts)} classes of {min(counts)} to {max(counts)} rows"
    return f"{len(data)} rows{texts}, {classes}"


def _print_metrics(metrics: dict[str, Any], out: Path, max_tokens: int) -> None:
    folder = out / f"seed-{metrics['seed']}"
    rows = metrics["rows_scored"]
    names = [name for name in metrics if name.startswith("eval_")]
    scores = ", ".join(f"{name[5:]} {_score(name, metrics[name], rows)}" for name in names)
    typer.echo(
        f"seed {metrics['seed']}: trained on {metrics['rows_trained']} rows, scored on "
        f"{rows}: {scores}; {metrics['seconds']:.1f} s"
    )
    if "accuracy_interval" in metrics:
        low, high = metrics["accuracy_interval"]
        typer.echo(f"  accuracy: 95 % interval {low:.3f} to {high:.3f}")
    for line in (_gain(metrics), _facts(metrics, max_tokens), _course(metrics), _elsewhere(metrics)):
        if line:
            typer.echo(f"  {line}")
    for prompt, expected, answer in metrics.get("samples", []):
        typer.echo(
            f"  {prompt!r:.60} -> {answer!r:.60}"
            + ("" if answer == expected else f" (expected {expected!r:.60})")
        )
    if "samples" in metrics:
        typer.echo(f"  all answers: {folder / 'samples.csv'}")
    if "eval_accuracy" in metrics:
        wrong = rows - round(rows * metrics["eval_accuracy"])
        listed = f"wrong rows ({wrong}): {folder / 'wrong.csv'}; " if wrong else ""
        typer.echo(f"  {listed}confusion matrix: {folder / 'confusion.csv'}")
    elif "eval_rmse" in metrics:
        typer.echo(f"  predicted numbers, the worst first: {folder / 'wrong.csv'}")
    if "rows_saved" in metrics:
        typer.echo(
            f"  the saved model was trained on all {metrics['rows_saved']} rows (--keep-holdout prevents it)"
        )


def _score(name: str, value: float, rows: int) -> str:
    """Format a score with the digits that a number of rows supports: 2 up to 100 rows, 3 up to 1,000, then 4.

    They are decimals of a share such as the accuracy, and significant digits of a loss or an rmse.
    """
    digits = min(4, max(2, len(str(rows - 1))))
    if name.endswith(("loss", "rmse")) and math.isfinite(value) and value > 0:
        return f"{value:.{min(6, max(0, digits - 1 - math.floor(math.log10(value))))}f}"
    return f"{value:.{digits}f}"


def _gain(metrics: dict[str, Any]) -> str:
    """Compare the result with the classifier in closed form that training started from."""
    if metrics["method"] == "probe":
        return ""
    seconds = f"{metrics.get('closed_form_seconds', 0):.0f} s"
    if "closed_form_rmse" in metrics:
        rmse = metrics["closed_form_rmse"]
        score = _score("rmse", rmse, metrics["rows_scored"])
        return f"ridge regression on the frozen model ({seconds}, --method probe): rmse {score}"
    if "gain" not in metrics:
        return ""
    gain = 100 * metrics["gain"]
    error = 100 * metrics["gain_error"]
    rows = metrics["rows_scored"]
    accuracy = metrics["closed_form_accuracy"]
    start = (
        f"logistic regression on the frozen model ({seconds}): accuracy {_score('accuracy', accuracy, rows)}"
    )
    if gain == error == 0:  # no row is right for one of the two only
        right = round(accuracy * rows)
        same = f"all {rows} rows" if right == rows else f"the same {right} of {rows} rows"
        return f"{start}; both are right on {same}: --method probe gives the same in {seconds}"
    if gain > error:
        return f"{start}; training gained {gain:.1f} ± {error:.1f} points"
    return (
        f"{start}; training gained nothing that these rows can show ({gain:+.1f} ± {error:.1f} points): "
        f"--method probe gives the same in {seconds}"
    )


def _course(metrics: dict[str, Any]) -> str:
    """Warn if the held-out loss of a text completion rose after its best epoch."""
    losses = metrics.get("held_out_losses", [])
    best = metrics.get("best_epoch", 0)
    if not 0 < best < len(losses):
        return ""
    course = ", ".join(f"{loss:.3f}" for loss in losses)
    return f"warning: the held-out loss rose after epoch {best} ({course}); the model of epoch {best} is used"


def _elsewhere(metrics: dict[str, Any]) -> str:
    """Say how much worse a text completion got on what the base model writes by itself."""
    if "base_texts_perplexity_ratio" not in metrics:
        return ""
    ratio = metrics["base_texts_perplexity_ratio"]
    return f"elsewhere: perplexity of texts that the base model wrote x{ratio:.2f} (1 is unchanged)"


def _facts(metrics: dict[str, Any], max_tokens: int) -> str:
    """Count the texts that were cut and the rows that occur in both parts."""
    facts = []
    if metrics.get("truncated"):
        facts.append(f"{metrics['truncated']} rows cut at {max_tokens} tokens (--max-tokens)")
    if metrics.get("duplicates"):
        count = metrics["duplicates"]
        facts.append(f"{count} scored rows are also among the training rows: the score may be too high")
    return "; ".join(facts)


def _print_summary(runs: list[dict[str, Any]], out: Path) -> None:
    from attangent.tuning.pipeline import TuningRuns

    first = runs[0]
    name = TuningRuns(runs).score
    values = [metrics[name] for metrics in runs]
    rows = first["rows_scored"]
    spread = f" ± {_score(name, statistics.stdev(values), rows)}" if len(values) > 1 else ""
    seeds = f"{len(values)} seeds" if len(values) > 1 else "1 seed"
    typer.echo(
        f"{first['method']}: {name[5:]} {_score(name, statistics.fmean(values), rows)}{spread} over {seeds}; "
        f"{first['parameters']:,.0f} trained parameters, {first['head_parameters']:,.0f} more in the "
        f"classifier; saved in {out}"
    )
    use = "generate TEXT" if name == "eval_loss" else "predict ROWS"
    folder = out / f"seed-{first['seed']}"
    typer.echo(f"next: attangent {use} --adapter {folder}")


def check_base(folder: Path, model: str | None) -> None:
    """Check that a base model is not named for a folder that holds the complete model."""
    from attangent.tuning.folders.tuned import is_tuned, needs_base

    if model is not None and is_tuned(folder) and not needs_base(folder):
        raise AttangentError(f"{folder} holds the complete model; leave --model {model} out")


def predict(
    adapter: Annotated[Path, typer.Option(help="Folder that `attangent tune` wrote.")],
    rows: Annotated[
        Path | None,
        typer.Argument(
            help="New rows, a .txt file with one text per line, or images.", show_default="standard input"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="CSV file for the predictions.", show_default="print them")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="New location of the base model, if it has moved.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Rows per forward pass.")] = 32,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict labels with their probabilities, or numbers, for new rows with a tuned model."""
    from attangent.tuning.folders.answers import predictions_csv, rows_to_predict
    from attangent.tuning.folders.tuned import load_tuned

    check_size("batch", batch)
    if rows is not None and not rows.exists():
        raise AttangentError(f"there is no {rows}; pass a file of rows, or lines on standard input.")
    if out is not None:
        check_table(out, ".csv")
    check_base(adapter, model)
    tuned = load_tuned(adapter, model)
    inputs = rows_to_predict(tuned, rows or sys.stdin)
    predictions = tuned.predict(inputs.rows, batch)
    if out is not None:
        write_whole(out, predictions_csv(predictions, inputs))
    if json_:
        typer.echo(json.dumps([asdict(prediction) for prediction in predictions], indent=1))
    elif out is None:
        typer.echo(predictions_csv(predictions, inputs), nl=False)
    elif not quiet:
        typer.echo(f"{len(predictions)} predictions in {out}")
