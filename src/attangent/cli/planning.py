"""The command `plan`. Heavy imports wait until it runs."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attangent._errors import AttangentError
from attangent.cli import tuning_options as options
from attangent.cli.grammar import AsJson, Quiet

if TYPE_CHECKING:
    from attangent.tuning.planning.checking import Checked
    from attangent.tuning.planning.plan import Plan, PlannedRun


def plan(
    model: options.Model = None,
    train: options.Rows = None,
    eval_: options.Evaluation = None,
    out: Annotated[Path, typer.Option(help="Where plan.json and plan.png go.")] = Path("plan"),
    methods: Annotated[str, typer.Option(help="Methods, with commas between.")] = "ntk,lora,head",
    rates: Annotated[str, typer.Option(help="Learning rates, with commas between, or auto.")] = "auto",
    check: Annotated[
        Path | None, typer.Option(help="A folder that `tune` wrote: compare it with the plan it followed.")
    ] = None,
    task: options.Task = "classification",
    layout: options.Layout = None,
    text_column: options.TextColumns = None,
    label_column: options.LabelColumn = None,
    max_tokens: options.MaxTokens = 128,
    pooling: options.PoolingName = "declared",
    start: options.StartName = "closed-form",
    class_weights: options.ClassWeights = False,
    top: options.Top = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    trials: Annotated[
        int,
        typer.Option(help="Make so many runs, one for a method, before one is chosen; they are kept."),
    ] = 2,
    orders: Annotated[int, typer.Option(help="In how many orders of the rows each run is predicted.")] = 2,
    tangents: Annotated[
        int, typer.Option(help="Look again at runs marked ?, so many times on their way: each half a run.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The seed of the run that is planned.")] = 0,
    memory: Annotated[float, typer.Option(help="GiB that tangents may take.")] = 2.0,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict fine-tuning runs before they start: which method, learning rate and length, and what accuracy.

    Writes plan.json, which `attangent tune --plan` follows, and a picture of the curves. Afterwards
    `attangent plan --check RUN` sets the run beside its plan.
    """
    shared = dict(locals())
    if check is not None:
        _check(check, out, json_)
        return
    if model is None or train is None:
        raise AttangentError("give --model and --train to make a plan, or --check with a run's folder")
    from attangent._checks import check_positive
    from attangent._files import real_folder
    from attangent.tuning.compare.settings import training_of
    from attangent.tuning.methods import Method
    from attangent.tuning.planning.expected import Care
    from attangent.tuning.planning.making import plan_tuning
    from attangent.tuning.planning.trials import Trials
    from attangent.tuning.recipe import Recipe

    given = {"epochs": epochs, "batch": batch, "seed": seed}
    tuning = options.request_of(
        shared,
        method=Method(top=top),
        training=training_of({name: value for name, value in given.items() if value is not None}),
        recipe=Recipe(start),  # pyright: ignore[reportArgumentType]
    )
    silent = quiet or json_
    real_folder(out)
    found = plan_tuning(
        tuning,
        [name.strip() for name in methods.split(",") if name.strip()],
        _rates(rates),
        Care(orders, tangents=tangents),
        check_positive("memory", memory) * 2**30,
        (lambda what: None) if silent else _say,
        Trials(trials, out / "made"),
    )
    found.write(out / "plan.json")
    found.plot(out / "plan.png")
    if json_:
        typer.echo(json.dumps(asdict(found), indent=1))
    elif not quiet:
        typer.echo(_told(found, out))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _rates(given: str) -> list[float] | None:
    if given.strip() == "auto":
        return None
    try:
        return [float(part) for part in given.split(",") if part.strip()]
    except ValueError:
        raise AttangentError(f"--rates is {given!r}, expected auto or numbers such as 1e-3,3e-3") from None


def _told(plan: "Plan", out: Path) -> str:
    """The table of runs and the choice, in words."""
    run, shown = plan.choice, plan.shown
    lines = [_head(plan.measure), *(_row(other, other == run) for other in shown)]
    if not all(other.follows for other in shown):
        what = "the training loss may be off by more than 5 %, or the " + plan.measure
        lines.append(f"? marks what cannot be foretold well: {what} by more than 2 points")
    if any(other.made is not None for other in shown):
        lines.append(f"made: the {plan.measure} of a run that was made while planning, and kept")
    lines += ["", plan.advice]
    lines.append(
        f"that run takes about {_clock(run.seconds)} and {run.megabytes:,.0f} MB; "
        f"this plan took {_clock(plan.seconds)}"
    )
    lines.append(f"now: attangent tune --plan {out / 'plan.json'} --out RUN; curves in {out / 'plan.png'}")
    return "\n".join(lines)


def _head(measure: str) -> str:
    return (
        f"{'method':<9}{'rate':>9}{'epochs':>8}{'steps':>7}{'train loss':>12}{'eval loss':>11}"
        f"{measure:>11}{'90 % interval':>17}{'made':>7}"
    )


def _row(run: "PlannedRun", chosen: bool) -> str:
    loss, score = (" " if sure else "?" for sure in (run.loss_sure, run.score_sure))
    bounds = f"{run.low:.3f} to {run.high:.3f}"
    made = "" if run.made is None else f"{run.made:.3f}"
    mark = " <- take" if chosen else " (tune's default)" if run.default else ""
    return (
        f"{run.method:<9}{run.learning_rate:>9.2g}{run.epochs:>8.3g}{run.steps:>7}{run.train_loss:>11.4f}{loss}"
        f"{run.eval_loss:>11.4f}{run.score:>10.3f}{score}{bounds:>17}{made:>7}{mark}".rstrip()
    )


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"


def _check(run: Path, out: Path, json_: bool) -> None:
    from attangent.tuning.planning.checking import check_runs
    from attangent.tuning.planning.plan import read_plan

    own, other = run / "plan.json", out / "plan.json"
    if not own.is_file() and not other.is_file():
        raise AttangentError(f"there is neither {own} nor {other}; name the plan's folder with --out")
    found = check_runs(read_plan(own if own.is_file() else other), run)
    if json_:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1, default=str))
        return
    for one in found:
        typer.echo(_compared(one))


def _compared(checked: "Checked") -> str:
    run = checked.run
    lines = [f"{checked.folder}: {run.method} at rate {run.learning_rate:g}, {run.steps} steps"]
    lines.append(f"{'':<24}{'planned':>10}{'real':>10}{'off by':>10}")
    for one in checked.figures:
        absolute = one.name in ("accuracy", "r2")
        off = f"{100 * one.off:+.1f} {'pt' if absolute else '%'}"
        digits = 1 if one.name in ("seconds", "megabytes") else 4
        lines.append(f"{one.name:<24}{one.planned:>10.{digits}f}{one.real:>10.{digits}f}{off:>10}")
    where = "inside" if checked.inside else "outside"
    lines.append(f"the score is {where} the interval {run.low:.3f} to {run.high:.3f}")
    for sure, what in ((run.loss_sure, "training loss"), (run.score_sure, "score")):
        if not sure:
            lines.append(f"the plan had warned that the {what} of this run cannot be foretold well")
    return "\n".join(lines)
