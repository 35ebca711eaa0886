"""The commands `forecast` and `diagnose`. Heavy imports wait until one of them runs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._errors import AttangentError
from attangent._files import writing
from attangent._progress import Bars

if TYPE_CHECKING:
    from attangent.forecast.outlook.diagnosis import Diagnosis
    from attangent.forecast.outlook.targets import Outlook


def forecast(
    file: Annotated[Path, typer.Argument(help="A CSV with a header; .gz and the like are fine.")],
    horizon: Annotated[int, typer.Option(help="How many steps ahead.")],
    out: Annotated[Path, typer.Option(help="Where to write the forecast, a CSV.")],
    target: Annotated[
        list[str] | None, typer.Option(help="A column to forecast; repeat for more; all by default.")
    ] = None,
    lookback: Annotated[int | None, typer.Option(help="How many past values a model sees.")] = None,
    model: Annotated[
        str, typer.Option(help="auto, or persistence, seasonal, linear, nlinear, dlinear, patchtst, ...")
    ] = "auto",
    intervals: Annotated[str, typer.Option(help="Levels of the prediction intervals.")] = ".8,.95",
    date: Annotated[str | None, typer.Option(help="The column of times; looked for by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw past and forecast here (.png, .svg, .pdf).")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Forecast columns of a CSV, with intervals, the expected error and the reason for the model."""
    levels = _levels(intervals)
    _check_folder(out)
    if plot is not None:
        _check_folder(plot)
    from attangent.forecast.data.frames import read_frame
    from attangent.forecast.outlook.targets import forecast_frame, tidy

    table = read_frame(file, date, tuple(target or ()))
    if not quiet:
        for note in table.notes:
            typer.echo(f"note: {note}")
    targets = target or [str(column) for column in table.frame.columns]
    with Bars(quiet) as bars:
        waiting = iter(range(len(targets)))
        outlooks = forecast_frame(
            table.frame,
            targets,
            horizon,
            lookback,
            model,
            levels,
            lambda name: bars.show("forecasting", next(waiting), len(targets), note=name),
        )
    with writing(out) as temporary:
        tidy(outlooks).to_csv(temporary, index=False)
    if plot is not None:
        from attangent.forecast.outlook.plot import plot_outlooks

        plot_outlooks(table.frame, outlooks, plot)
    if not quiet:
        for outlook in outlooks:
            _print_outlook(outlook, levels)
        typer.echo(f"forecast: {out}" + (f", picture: {plot}" if plot else ""))


def diagnose(
    file: Annotated[Path, typer.Argument(help="A CSV with a header; .gz and the like are fine.")],
    target: Annotated[list[str] | None, typer.Option(help="Only this column; repeat for more.")] = None,
    horizon: Annotated[int | None, typer.Option(help="How many steps ahead.")] = None,
    lookback: Annotated[int | None, typer.Option(help="How many past values a model sees.")] = None,
    date: Annotated[str | None, typer.Option(help="The column of times; looked for by default.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say what kind of series a CSV holds and which kind of model it rewards."""
    from attangent.forecast.data.frames import read_frame
    from attangent.forecast.outlook.diagnosis import diagnose as examine

    table = read_frame(file, date, tuple(target or ()))
    frame = table.frame[target] if target else table.frame
    found = examine(frame, horizon=horizon, lookback=lookback)
    if json_:
        typer.echo(json.dumps(_as_json(found) | {"notes": table.notes}, indent=1))
        return
    for note in table.notes:
        typer.echo(f"note: {note}")
    _print_diagnosis(found)


def _levels(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        levels = []
    if not levels or not all(0 < level < 1 for level in levels):
        raise AttangentError(f"--intervals is {text!r}, expected levels between 0 and 1 such as .8,.95")
    return sorted(set(levels))


def _check_folder(path: Path) -> None:
    if not path.resolve().parent.is_dir():
        raise AttangentError(f"cannot write {path}: there is no folder {path.resolve().parent}")
    if path.is_dir():
        raise AttangentError(f"cannot write {path}: it is a folder")


def _print_outlook(outlook: "Outlook", levels: list[float]) -> None:
    typer.echo(f"{outlook.target}: {outlook.why}.")
    typer.echo(f"  {outlook.sentence()}.")
    covered = ", ".join(
        f"{outlook.expected[f'coverage at {level:g}']:.0%} for {level:.3g}" for level in levels
    )
    typer.echo(f"  share of values inside the intervals there: {covered}.")


def _as_json(found: "Diagnosis") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(found)


def _print_diagnosis(found: "Diagnosis") -> None:
    typer.echo(
        f"{found.times} times, {found.channels} channels; look-back {found.lookback}, "
        f"horizon {found.horizon}, period {found.period}"
    )
    for name, error in sorted(found.errors.items(), key=lambda item: item[1]):
        typer.echo(f"  mean squared error of {name}: {error:.4g}")
    low, high = found.headroom.interval
    typer.echo(f"  head-room for non-linear models: {found.headroom.share:.1%} ({low:.1%} to {high:.1%})")
    typer.echo(f"  shift of mean {found.shift.mean:.2f}, of spread {found.shift.spread:.2f}")
    typer.echo(found.verdict)
