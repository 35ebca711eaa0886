"""The commands `tune`, `predict`, `compare` and `solve`. Heavy imports wait until one of them runs."""

import inspect
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._errors import AttangentError
from attangent._files import check_file, write_whole
from attangent.cli import tuning_options as options
from attangent.cli.grammar import AsJson, Quiet, hint

if TYPE_CHECKING:
    from attangent.tuning.compare.settings import Comparison
    from attangent.tuning.methods import Method
    from attangent.tuning.request import Tuning


def tune(
    out: options.Out,
    model: options.Model = None,
    train: options.Rows = None,
    plan: options.PlanFile = None,
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
    `torchrun` or `accelerate launch` it uses all their processes. With --plan, everything but where to write
    and the seeds comes from the plan that `attangent plan` made.
    """
    shared = dict(locals())
    if plan is not None:
        _refuse_beside_plan(shared)
        _follow(plan, out, seed, seeds, json_, quiet)
        return
    if model is None or train is None:
        raise AttangentError("give --model and --train, or --plan with a file that `attangent plan` wrote")
    from attangent.tuning.compare.settings import training_of
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


def _follow(plan: Path, out: Path, seed: int | None, seeds: int, json_: bool, quiet: bool) -> None:
    """Tune as a plan says; the plan is kept beside the run."""
    from dataclasses import replace

    from attangent._files import real_folder
    from attangent.tuning.planning.plan import read_plan, tuning_of
    from attangent.tuning.planning.trials import take_made

    found = read_plan(plan)
    tuning = tuning_of(found)
    if seed is not None:
        tuning = replace(tuning, training=replace(tuning.training, seed=seed))
    real_folder(out)
    found.write(out / "plan.json")
    made = (plan if plan.is_dir() else plan.parent) / "made"
    if take_made(tuning, made, out) and not (quiet or json_):
        typer.echo(f"this run was made while planning: copied from {made}")
    _run(tuning, out, seeds, json_, quiet)


def _refuse_beside_plan(given: dict[str, Any]) -> None:
    """A plan settles all but where to write, the seeds and how it is shown."""
    free = ("plan", "out", "seed", "seeds", "json_", "quiet")
    defaults = {name: one.default for name, one in inspect.signature(tune).parameters.items()}
    odd = sorted(name for name in defaults if name not in free and given[name] != defaults[name])
    if odd:
        names = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in odd)
        raise AttangentError(f"the plan settles this already: leave {names} out")


def _run(tuning: "Tuning", out: Path, seeds: int, json_: bool, quiet: bool) -> None:
    from attangent.tuning.finetune import finetune
    from attangent.tuning.processes import is_first_process

    silent = quiet or json_ or not is_first_process()
    found = finetune(tuning, out, (lambda metrics: None) if silent else _print_metrics, seeds, silent)
    if json_ and is_first_process():
        typer.echo(json.dumps(found, indent=1))
    elif not silent:
        _print_mean(found, out, tuning.model)


def compare(
    out: Annotated[Path, typer.Option(help="Where runs.jsonl and table.md go.")],
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with model, entrants and tasks; see docs/tuning.md.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A Hugging Face id, or the folder of a model.")] = None,
    train: Annotated[Path | None, typer.Option(help="A .jsonl or .csv file, or a folder of images.")] = None,
    eval_: Annotated[Path | None, typer.Option("--eval", help="The same, to score on.")] = None,
    methods: Annotated[str, typer.Option(help="Methods, with commas between.")] = "ntk,lora,prefix,head",
    max_tokens: Annotated[int, typer.Option(help="Tokens of each text feature.")] = 128,
    epochs: Annotated[float, typer.Option(help="Passes over the training data.")] = 4.0,
    top: Annotated[int | None, typer.Option(help="Adapt the last so many layers of an encoder.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, each with a split; 5 by default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The first seed; 0, or what --config says, by default.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare tuning methods: mean and spread of accuracy over seeds, parameters, seconds and memory.

    Give either --config, or --model with --train and --eval: then methods get the budget of LoRA with rank 8
    and are trained as `tune` does.
    A comparison that was cut off goes on where it stopped.
    """
    from dataclasses import replace

    from attangent.tuning.compare.run import compare as run_all
    from attangent.tuning.compare.settings import read_comparison
    from attangent.tuning.compare.table import summary, table_text

    if config is not None:
        if model is not None or train is not None or eval_ is not None:
            raise AttangentError("both --config and --model, --train or --eval are given, expected one kind")
        comparison = read_comparison(config)
    else:
        comparison = _from_options(model, train, eval_, methods, max_tokens, epochs, top)
    comparison = replace(comparison, **_set(seeds=seeds, first_seed=seed))
    runs = run_all(comparison, out, (lambda run: None) if quiet or json_ else _print_run)
    table = table_text(comparison, runs)
    write_whole(out / "table.md", table + "\n")
    typer.echo(json.dumps(summary(comparison, runs), indent=1) if json_ else table)
    if not json_:
        hint(f"the table is in {out / 'table.md'}, every run in {out / 'runs.jsonl'}", quiet)


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
    from attangent._checks import check_size
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


def solve(
    model: Annotated[str, typer.Option(help="A causal language model: a folder or a hub id.")],
    problems: Annotated[Path, typer.Option(help="Problems of GSM8K or MATH: a .jsonl file (.gz is fine).")],
    out: Annotated[Path, typer.Option(help="A .jsonl file: a line for each problem.")],
    adapter: Annotated[
        list[Path] | None, typer.Option(help="The folder of an adapter; may be given twice.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many problems.")] = None,
    tokens: Annotated[int, typer.Option(help="At most so many new tokens in a solution.")] = 256,
    batch: Annotated[int, typer.Option(help="Problems answered at once.")] = 8,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Answer math problems greedily and score the answers by exact match."""
    from attangent.tuning.solving import Solving, solve_file

    solving = Solving(model, problems, tuple(adapter or ()), limit, tokens, batch)
    silent = quiet or json_
    found = solve_file(solving, out, (lambda done: None) if silent else _print_done)
    if json_:
        typer.echo(json.dumps(found))
    elif not quiet:
        typer.echo(
            f"exact match {found['exact_match']:.3f}: {found['right']} of {found['problems']}; saved in {out}"
        )


def _print_done(done: int) -> None:
    print(f"{done} answered", file=sys.stderr)


def _from_options(
    model: str | None,
    train: Path | None,
    evaluate: Path | None,
    methods: str,
    max_tokens: int,
    epochs: float,
    top: int | None,
) -> "Comparison":
    from attangent.tuning.compare.budget import equal_entrants
    from attangent.tuning.compare.run import pool_size
    from attangent.tuning.compare.settings import Comparison, Trial
    from attangent.tuning.recipe import Recipe
    from attangent.tuning.training import Training

    if model is None or train is None or evaluate is None:
        raise AttangentError("give --config, or all of --model, --train and --eval")
    for path in (train, evaluate):
        if not path.exists():
            raise AttangentError(f"there is no {path}; give a .jsonl or .csv file, or a folder of images")
    total, held = pool_size(train), pool_size(evaluate)
    validation = max(total // 5, 1)
    name = train.name.split(".")[0]
    trial = Trial(name, (train,), total - validation, validation, held, (evaluate,), None, max_tokens)
    entrants = equal_entrants(
        model, [part.strip() for part in methods.split(",") if part.strip()], trial, top
    )
    own = {"recipe": Recipe(), "pooling": "declared"}
    return Comparison(model, entrants, (trial,), Training(epochs=epochs), top=top, **own)  # pyright: ignore


def _read_toml(path: Path | None, known: set[str]) -> dict[str, Any]:
    from attangent._settings import read_toml

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


def _print_run(run: dict[str, Any]) -> None:
    print(
        f"{run['task']}, {run['entrant']}, rate {run['rate']:g}, seed {run['seed']}: validation "
        f"{run['validation']['accuracy']:.3f}, test {run['test']['accuracy']:.3f}, {run['seconds']:.1f} s",
        file=sys.stderr,
    )
