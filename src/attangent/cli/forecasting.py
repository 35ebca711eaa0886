"""The commands `forecast`, `evaluate` and `diagnose`. Heavy imports wait until one of them runs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._errors import AttangentError
from attangent._files import writing
from attangent._progress import Bars

if TYPE_CHECKING:
    from pandas import DataFrame

    from attangent.forecast.outlook.diagnosis import Diagnosis
    from attangent.forecast.outlook.outlooks import Outlook
    from attangent.forecast.outlook.panels.forecaster import SeriesForecaster


def forecast(
    file: Annotated[
        list[Path],
        typer.Argument(help="A CSV with a header (.gz and the like are fine) or Parquet; more with --id."),
    ],
    horizon: Annotated[int, typer.Option(help="How many steps ahead.")],
    out: Annotated[Path, typer.Option(help="Where to write the forecast, a CSV or Parquet file.")],
    target: Annotated[
        list[str] | None, typer.Option(help="A column to forecast; repeat for more; all by default.")
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", help="The column of ids: the file holds many series, one below the other."),
    ] = None,
    lookback: Annotated[int | None, typer.Option(help="How many past values a model sees.")] = None,
    period: Annotated[
        int | None, typer.Option(help="Steps after which the calendar repeats (12 for months).")
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="auto, or combination, theta, smoothing, ridge, seasonal, linear, patchtst, ..."),
    ] = "auto",
    intervals: Annotated[str, typer.Option(help="Levels of the prediction intervals.")] = ".8,.95",
    date: Annotated[str | None, typer.Option(help="The column of times; looked for by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw past and forecast here (.png, .svg, .pdf).")] = None,
    report: Annotated[Path | None, typer.Option(help="With --id: write a report here (.html).")] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="With --id: a column that is known in advance; repeat for more.")
    ] = None,
    future: Annotated[
        Path | None, typer.Option(help="With --covariate: a file with ids, times and covariates to come.")
    ] = None,
    holidays: Annotated[
        str | None, typer.Option(help="With --id: a country (DE, US) whose holidays matter.")
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="With --id: a column that says what kind of series each is.")
    ] = None,
    drop_short: Annotated[
        bool, typer.Option("--drop-short", help="With --id: leave out series of fewer than three values.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="With --id: groups of series that are forecast at once.")] = 1,
    dask: Annotated[
        str | None, typer.Option(help="With --id: run on the Dask cluster at this address.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Forecast columns of a CSV, or every series of a long one, with intervals and the reason for the model.

    With --id a run that was cut off goes on where it stopped.
    """
    levels = _levels(intervals)
    for path in (out, plot, report):
        if path is not None:
            _check_folder(path)
    id_ = id_ or _usual_id(file)
    if id_ is not None:
        known = _Known(tuple(covariate or ()), future, holidays, category)
        asked = _Asked(horizon, period, model, levels, drop_short, jobs, dask, known)
        _forecast_many(file, id_, date, target, asked, out, plot, report, quiet)
        return
    if len(file) > 1:
        raise AttangentError(
            f"{len(file)} files were given, expected one, or --id for series below each other"
        )
    outlooks = _forecast_table(
        file[0], horizon, out, target, lookback, period, model, levels, date, plot, quiet
    )
    _print_outlooks(outlooks, levels, quiet)
    if not quiet:
        typer.echo(f"forecast: {out}" + (f", picture: {plot}" if plot else ""))


def _forecast_table(
    file: Path,
    horizon: int,
    out: Path,
    target: list[str] | None,
    lookback: int | None,
    period: int | None,
    model: str,
    levels: list[float],
    date: str | None,
    plot: Path | None,
    quiet: bool,
) -> "list[Outlook]":
    """Every column of one table forecast, written and drawn."""
    from attangent.forecast.data.frames import read_frame
    from attangent.forecast.outlook.outlooks import tidy
    from attangent.forecast.outlook.targets import forecast_frame

    table = read_frame(file, date, tuple(target or ()))
    _print_notes(table.notes, quiet)
    targets = target or [str(column) for column in table.frame.columns]
    with Bars(quiet) as bars:
        waiting = iter(range(len(targets)))

        def report(name: str) -> None:
            bars.show("forecasting", next(waiting), len(targets), note=name)

        outlooks = forecast_frame(table.frame, targets, horizon, lookback, model, levels, report, period)
    _write(tidy(outlooks), out)
    if plot is not None:
        from attangent.forecast.outlook.plot import plot_outlooks

        plot_outlooks(table.frame, outlooks, plot)
    return outlooks


def _print_outlooks(outlooks: "list[Outlook]", levels: list[float], quiet: bool) -> None:
    for outlook in outlooks if not quiet else []:
        _print_outlook(outlook, levels)
    for outlook in outlooks:
        if outlook.warning():
            typer.echo(f"{outlook.target}: {outlook.warning()}", err=True)


@dataclass(frozen=True)
class _Known:
    covariates: tuple[str, ...]
    future: Path | None
    holidays: str | None
    category: str | None


@dataclass(frozen=True)
class _Asked:
    horizon: int
    period: int | None
    model: str
    levels: list[float]
    drop_short: bool
    jobs: int
    dask: str | None
    known: _Known


def _usual_id(files: list[Path]) -> str | None:
    """The column unique_id where a file's header names it: that is how long files are written."""
    path = files[0]
    if not path.is_file() or path.suffix == ".parquet":
        return None
    import pandas as pd

    try:
        names = pd.read_csv(path, nrows=0, encoding="utf-8-sig").columns
    except (ValueError, OSError):
        return None
    return "unique_id" if "unique_id" in names else None


def _forecast_many(
    files: list[Path],
    id_: str,
    date: str | None,
    target: list[str] | None,
    asked: _Asked,
    out: Path,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    from attangent.forecast.outlook.panels.groups import clear

    made = _series_forecaster(id_, date, target, asked).fit(files)
    _print_notes(made.notes_, quiet)
    kept = out.with_name(f".{out.name}.parts")
    with Bars(quiet) as bars:
        found = made.outlook(
            asked.horizon,
            [100 * level for level in asked.levels],
            X_df=asked.known.future,
            folder=kept,
            show=lambda done, total: bars.show(
                "forecasting", done, total, note=f"{len(made.series_.ids)} series"
            ),
        )
    _write(found.plain(), out)
    clear(kept)
    if plot is not None or report is not None:
        from attangent.forecast.outlook.panels.pictures import plot_set, write_report

        if plot is not None:
            plot_set(made.series_, found, plot)
        if report is not None:
            write_report(made.series_, found, report)
    if not quiet:
        typer.echo(f"{len(made.series_.ids)} series, period {made.period_}: {found.why[0]}.")
        for name, error in sorted(found.errors.items(), key=lambda item: item[1]):
            typer.echo(f"  error on the past of {name}: {error:.4g} seasonal steps")
        typer.echo(f"forecast: {out}" + "".join(f", {path}" for path in (plot, report) if path))


def _series_forecaster(
    id_: str, date: str | None, target: list[str] | None, asked: _Asked
) -> "SeriesForecaster":
    if target is not None and len(target) > 1:
        raise AttangentError(f"--target names {len(target)} columns, expected one with --id")
    from attangent.forecast.outlook.panels.forecaster import SeriesForecaster

    return SeriesForecaster(
        asked.model,
        asked.period,
        id=id_,
        time=date or "ds",
        target=target[0] if target else "y",
        covariates=asked.known.covariates,
        holidays=asked.known.holidays,
        category=asked.known.category,
        drop_short=asked.drop_short,
        jobs=asked.jobs,
        dask=asked.dask,
    )


def evaluate(
    file: Annotated[
        list[Path], typer.Argument(help="CSV or Parquet files with one row for each series and time.")
    ],
    horizon: Annotated[int, typer.Option(help="How many steps ahead.")],
    id_: Annotated[str, typer.Option("--id", help="The column of ids.")] = "unique_id",
    target: Annotated[str, typer.Option(help="The column of values.")] = "y",
    date: Annotated[str, typer.Option(help="The column of times.")] = "ds",
    period: Annotated[int | None, typer.Option(help="Steps after which the calendar repeats.")] = None,
    windows: Annotated[
        int, typer.Option(help="How many earlier ends to forecast from, a horizon apart.")
    ] = 1,
    drop_short: Annotated[
        bool, typer.Option("--drop-short", help="Leave out series of fewer than three values.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the table here, a CSV.")] = None,
) -> None:
    """Compare all models on the ends of many series: MASE, sMAPE, quantile loss, shares within intervals."""
    if out is not None:
        _check_folder(out)
    from attangent.forecast.data.long_frames import Columns, read_long
    from attangent.forecast.data.periods import period_of
    from attangent.forecast.outlook.panels.evaluation import evaluate_models

    given = read_long(file, Columns(id_, date, target), drop_short=drop_short)
    _print_notes(given.notes, quiet=False)
    found = evaluate_models(given, horizon, period or period_of(given.series, given.step), windows)
    typer.echo(found.table.round(4).to_string())
    typer.echo(f"best by MASE over {found.series} series and {windows} windows: {found.winner}")
    if found.left_out:
        typer.echo(f"{found.left_out} series were too short to hold {horizon} values out")
    if out is not None:
        with writing(out) as temporary:
            found.table.to_csv(temporary)


def _print_notes(notes: list[str], quiet: bool) -> None:
    for note in notes if not quiet else []:
        typer.echo(f"note: {note}")


def _write(frame: "DataFrame", out: Path) -> None:
    with writing(out) as temporary:
        if out.suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_csv(temporary, index=False)


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
    if not outlook.expected:
        return
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
