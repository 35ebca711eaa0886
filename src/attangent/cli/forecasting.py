"""The command `forecast`. Heavy imports wait until it runs."""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, remove_leftovers, writing
from attangent._core.progress import Bars
from attangent._core.tables import harmless_frame, reading_table
from attangent.cli.common_options import AsJson, Quiet, check_file
from attangent.cli.evaluation import print_notes, records

if TYPE_CHECKING:
    from pandas import DataFrame

    from attangent.forecast.pipeline.outlooks import Outlook
    from attangent.forecast.pipeline.panels.forecaster import SeriesForecaster, SetForecast


def forecast(
    file: Annotated[
        list[Path],
        typer.Argument(help="A CSV with a header (.gz and the like are fine) or Parquet; more with --id."),
    ],
    horizon: Annotated[int, typer.Option(help="How many steps ahead.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the forecast: .csv or .parquet; printed without it.")
    ] = None,
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
    jobs: Annotated[int, typer.Option(help="How many cores to use at once; matters with --id.")] = 1,
    dask: Annotated[
        str | None, typer.Option(help="With --id: run on the Dask cluster at this address.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Forecast columns of a CSV, or every series of a long one, with intervals and the reason for the model.

    With --id a run that was cut off goes on where it stopped.
    """
    levels = _levels(intervals)
    for path in (out, plot, report):
        if path is not None:
            check_file(path)
    files = _Files(out, plot, report)
    id_ = id_ or _usual_id(file)
    if id_ is not None:
        known = _Known(tuple(covariate or ()), future, holidays, category)
        asked = _Asked(horizon, period, model, levels, drop_short, jobs, dask, known)
        _forecast_many(file, id_, date, target, asked, files, json_, quiet)
        return
    if len(file) > 1:
        raise AttangentError(
            f"{len(file)} files were given, expected one, or --id for series below each other"
        )
    silent = quiet or json_
    outlooks = _forecast_table(
        file[0], horizon, out, target, lookback, period, model, levels, date, plot, silent
    )
    if json_:
        _print_json({"targets": [_outlook_as_json(outlook) for outlook in outlooks]}, files)
        return
    _print_outlooks(outlooks, levels, quiet)
    if out is None:
        from attangent.forecast.pipeline.outlooks import tidy

        typer.echo(tidy(outlooks).to_string(index=False))
    files.name(quiet)


@dataclass(frozen=True)
class _Files:
    """What was asked to be written."""

    out: Path | None
    plot: Path | None
    report: Path | None = None

    def written(self) -> dict[str, str]:
        places = {"forecast": self.out, "picture": self.plot, "report": self.report}
        return {name: str(place) for name, place in places.items() if place is not None}

    def name(self, quiet: bool) -> None:
        """Say where the files are."""
        if self.written() and not quiet:
            typer.echo(", ".join(f"{name}: {place}" for name, place in self.written().items()))


def _print_json(content: dict[str, Any], files: _Files) -> None:
    typer.echo(json.dumps(content | {"files": files.written()}, indent=1, default=str))


def _outlook_as_json(outlook: "Outlook") -> dict[str, Any]:
    return {
        "target": outlook.target,
        "model": outlook.model,
        "why": outlook.why,
        "expected": outlook.expected,
        "warning": outlook.warning(),
        "values": records(outlook.values.rename_axis("time").reset_index()),
    }


def _forecast_table(
    file: Path,
    horizon: int,
    out: Path | None,
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
    from attangent.forecast.pipeline.outlooks import tidy
    from attangent.forecast.pipeline.targets import forecast_frame

    table = read_frame(file, date, tuple(target or ()))
    print_notes(table.notes, quiet)
    targets = target or [str(column) for column in table.frame.columns]
    with Bars(quiet) as bars:
        waiting = iter(range(len(targets)))

        def report(name: str) -> None:
            bars.show("forecasting", next(waiting), len(targets), note=name)

        outlooks = forecast_frame(table.frame, targets, horizon, lookback, model, levels, report, period)
    if out is not None:
        _write(tidy(outlooks), out)
    if plot is not None:
        from attangent.forecast.pipeline.plot import plot_outlooks

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
        with reading_table(path):
            names = pd.read_csv(path, nrows=0, encoding="utf-8-sig").columns
    except AttangentError:  # it will be said by whoever reads the whole
        return None
    return "unique_id" if "unique_id" in names else None


def _forecast_many(
    sources: list[Path],
    id_: str,
    date: str | None,
    target: list[str] | None,
    asked: _Asked,
    files: _Files,
    json_: bool,
    quiet: bool,
) -> None:
    from attangent.forecast.pipeline.panels.groups import clear

    made = _series_forecaster(id_, date, target, asked).fit(sources)
    print_notes(made.notes_, quiet or json_)
    kept = None if files.out is None else files.out.with_name(f".{files.out.name}.parts")
    with _only_writer(kept):
        with Bars(quiet or json_) as bars:
            found = made.outlook(
                asked.horizon,
                [100 * level for level in asked.levels],
                X_df=asked.known.future,
                folder=kept,
                show=lambda done, total: bars.show(
                    "forecasting", done, total, note=f"{len(made.series_.ids)} series"
                ),
            )
        if files.out is not None and kept is not None:
            remove_leftovers(files.out.parent, files.out.name)
            _write(found.plain(), files.out)
            clear(kept)
    if files.plot is not None or files.report is not None:
        from attangent.forecast.pipeline.panels.pictures import plot_set, write_report

        if files.plot is not None:
            plot_set(made.series_, found, files.plot)
        if files.report is not None:
            write_report(made.series_, found, files.report)
    if json_:
        _print_json(_set_as_json(made, found), files)
        return
    if not quiet:
        typer.echo(f"{len(made.series_.ids)} series, period {made.period_}: {found.why[0]}.")
        for name, error in sorted(found.errors.items(), key=lambda item: item[1]):
            typer.echo(f"  error on the past of {name}: {error:.4g} seasonal steps")
    if files.out is None:
        typer.echo(found.plain().to_string(index=False))
    files.name(quiet)


def _set_as_json(made: "SeriesForecaster", found: "SetForecast") -> dict[str, Any]:
    return {
        "series": len(made.series_.ids),
        "period": made.period_,
        "why": found.why,
        "errors": found.errors,
        "notes": found.notes,
        "values": records(found.plain()),
    }


def _only_writer(folder: Path | None) -> AbstractContextManager[None]:
    """The folder of what is finished held for writing, where there is one."""
    return nullcontext() if folder is None else only_writer(real_folder(folder), "forecast")


def _series_forecaster(
    id_: str, date: str | None, target: list[str] | None, asked: _Asked
) -> "SeriesForecaster":
    if target is not None and len(target) > 1:
        raise AttangentError(f"--target names {len(target)} columns, expected one with --id")
    from attangent.forecast.pipeline.panels.forecaster import SeriesForecaster

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


def _write(frame: "DataFrame", out: Path) -> None:
    with writing(out) as temporary:
        if out.suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            harmless_frame(frame).to_csv(temporary, index=False)


def _levels(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        levels = []
    if not levels or not all(0 < level < 1 for level in levels):
        raise AttangentError(f"--intervals is {text!r}, expected levels between 0 and 1 such as .8,.95")
    return sorted(set(levels))


def _print_outlook(outlook: "Outlook", levels: list[float]) -> None:
    typer.echo(f"{outlook.target}: {outlook.why}.")
    typer.echo(f"  {outlook.sentence()}.")
    if not outlook.expected:
        return
    covered = ", ".join(
        f"{outlook.expected[f'coverage at {level:g}']:.0%} for {level:.3g}" for level in levels
    )
    typer.echo(f"  share of values inside the intervals there: {covered}.")
