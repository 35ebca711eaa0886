"""The command `forecast`. Heavy imports wait until it runs."""

import json
import math
import shlex
import sys
from contextlib import nullcontext
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.files import check_file, only_writer, real_folder, remove_leftovers, writing
from attangent._core.progress import Bars
from attangent._core.tables import check_table, harmless_frame, reading_table
from attangent.cli.common_options import AsJson, Quiet
from attangent.cli.output import records
from attangent.forecast import Gaps, ModelName, Reconcile

if TYPE_CHECKING:
    from pandas import DataFrame

    from attangent.forecast import SeriesForecast, SeriesForecaster

IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="Column of ids, or several (store,item), for a file with one row per series and time. "
        "Default: unique_id.",
    ),
]
DateColumn = Annotated[str | None, typer.Option(help="Column of times. Default: the only column of dates.")]
DIGITS = "%.10g"
"""Digits of numbers in CSV files: enough for totals that equal the sums of their series."""


def forecast(
    file: Annotated[
        list[Path],
        typer.Argument(
            help="CSV file with a header (plain or compressed) or Parquet file; several with --id."
        ),
    ],
    horizon: Annotated[int, typer.Option(help="Number of steps ahead.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the forecast here (.csv or .parquet) instead of printing it.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column to forecast; repeat for more. Default: every numeric column; y with --id."),
    ] = None,
    id_: IdColumn = None,
    date: DateColumn = None,
    period: Annotated[
        int | None,
        typer.Option(help="Number of steps per season, e.g. 12 for months. Default: from the calendar."),
    ] = None,
    model: Annotated[
        ModelName | str, typer.Option(help="Model to use; auto chooses by past errors.")
    ] = "auto",
    intervals: Annotated[
        str, typer.Option(help="Levels of the prediction intervals, between 0 and 1.")
    ] = ".8,.95",
    plot: Annotated[
        Path | None, typer.Option(help="Draw past and forecast to this file (.png, .svg, .pdf).")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report to this file (.html).")] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="With --id: column known in advance; repeat for more.")
    ] = None,
    future: Annotated[
        Path | None, typer.Option(help="With --covariate: file with ids, times and future covariates.")
    ] = None,
    holidays: Annotated[
        str | None, typer.Option(help="Two letters of a country (DE, US) whose holidays matter.")
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="With --id: column with the kind of each series.")
    ] = None,
    gaps: Annotated[
        Gaps,
        typer.Option(
            help="Meaning of a missing row: zero, interpolate, skip the series, or auto: closed days such as "
            "Sundays are zero, single gaps are interpolated."
        ),
    ] = "auto",
    drop_short: Annotated[
        bool, typer.Option("--drop-short", hidden=True, help="Accepted; short series are always skipped.")
    ] = False,
    hierarchy: Annotated[
        str | None,
        typer.Option(
            help="With --id: columns that group the series, from the top (region,shop). Totals of the groups "
            "are forecast too, and equal the sums of their series."
        ),
    ] = None,
    reconcile: Annotated[
        Reconcile | None,
        typer.Option(help="With --hierarchy: mint (default) adjusts all levels, bottom-up sums the series."),
    ] = None,
    fitted: Annotated[
        Path | None,
        typer.Option(help="Write the past with fitted values, 99 % intervals and anomaly flags here (.csv)."),
    ] = None,
    contributions: Annotated[
        Path | None,
        typer.Option(help="Write the contribution of each covariate to the forecasts here (.csv)."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of processes for many series.")] = 1,
    dask: Annotated[
        str | None,
        typer.Option(hidden=True, help="Address of a Dask cluster to run on, or local for one here."),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Forecast columns of a table, or every series of a long one, with prediction intervals.

    With --out, an interrupted run resumes where it stopped.
    """
    check_size("horizon", horizon)
    levels = _levels(intervals)
    _check_files(out, plot, report, fitted, contributions)
    id_ = id_column(file, id_)
    if id_ is not None and len(target or ()) > 1:
        raise AttangentError(f"--target names {len(target or ())} columns, expected one with --id")
    if category is not None and id_ is None:
        raise AttangentError("--category needs a long table with a column of ids; name it with --id")
    if dask is not None and jobs != 1:
        raise AttangentError("--jobs has no effect with --dask; leave one of them out")
    if covariate and future is None:
        raise AttangentError("--covariate needs the values of the steps ahead; pass them with --future FILE")
    if future is not None and not covariate:
        raise AttangentError("--future is read for covariates only; name them with --covariate")
    if contributions is not None and not covariate and holidays is None:
        raise AttangentError("--contributions needs --covariate or --holidays")
    if reconcile is not None and hierarchy is None:
        raise AttangentError("--reconcile needs --hierarchy")
    from attangent.forecast.pipeline.forecaster import SeriesForecaster

    forecaster = SeriesForecaster(
        model,
        period,
        id_col=id_,
        time_col=date,
        target_col=target or ([] if id_ is None else "y"),
        covariates=covariate or (),
        holidays=holidays,
        category=category,
        gaps=gaps,
        hierarchy=[name.strip() for name in (hierarchy or "").split(",") if name.strip()],
        reconcile=reconcile or "mint",
        n_jobs=jobs,
        dask=dask,
    ).fit(file if id_ is not None else file[0])
    print_notes(forecaster.notes_, quiet or json_)
    result = _run(forecaster, horizon, levels, future, out, quiet or json_)
    if plot is not None:
        result.plot(plot)
    if report is not None:
        _write_report(forecaster, result, horizon, levels, report)
    if fitted is not None:
        _write_table(forecaster.forecast_fitted_values(), fitted)
    if contributions is not None and result.contributions is not None:
        _write_table(result.contributions, contributions)
    paths = {
        "forecast": out,
        "picture": plot,
        "report": report,
        "fitted values": fitted,
        "contributions": contributions,
    }
    files = {name: str(path) for name, path in paths.items() if path is not None}
    if json_:
        about = _columns_as_json(result) if id_ is None else _series_as_json(forecaster.period_, result)
        typer.echo(json.dumps(about | {"files": files}, indent=1, default=str))
        return
    _print_summary(forecaster, result, levels, quiet)
    if out is None:
        typer.echo(_rounded(result.plain()).to_string(index=False))
    if files and not quiet:
        typer.echo(", ".join(f"{name}: {path}" for name, path in files.items()))


def _check_files(out: Path | None, plot: Path | None, report: Path | None, *tables: Path | None) -> None:
    """Check that all files can be written, before any work is done."""
    for path in tables:
        if path is not None:
            check_table(path, ".csv", ".csv.gz")
    if out is not None:
        check_table(out, ".csv", ".csv.gz", ".parquet")
    if plot is not None:
        from attangent._core.plots import check_picture

        check_file(check_picture(plot))
    if report is not None:
        check_table(report, ".html")


def _levels(text: str) -> list[float]:
    try:
        levels = [float(number) for number in text.split(",") if number.strip()]
    except ValueError:
        levels = []
    if not levels or not all(0 < level < 1 for level in levels):
        raise AttangentError(f"--intervals is {text!r}, expected levels between 0 and 1 such as .8,.95")
    return sorted(set(levels))


def id_column(files: list[Path], named: str | None) -> str | None:
    """Return the column of ids: the named one, or unique_id if the header has it; None without ids."""
    path = files[0]
    if named is not None or not path.is_file() or path.suffix == ".parquet":
        names = []
    else:
        import pandas as pd

        try:
            with reading_table(path):
                names = pd.read_csv(path, nrows=0, encoding="utf-8-sig").columns
        except AttangentError:  # the reader of the complete file explains it
            names = []
    id_ = named or ("unique_id" if "unique_id" in names else None)
    if id_ is None and len(files) > 1:
        raise AttangentError(f"{len(files)} files were given, expected one, or --id for long tables")
    return id_


def _run(
    forecaster: "SeriesForecaster",
    horizon: int,
    levels: list[float],
    future: Path | None,
    out: Path | None,
    quiet: bool,
) -> "SeriesForecast":
    """Forecast with a progress bar and write the table; finished groups are kept next to `out` meanwhile."""
    from attangent.forecast.pipeline.groups import Workers, clear

    folder = None if out is None else out.with_name(f".{out.name}.parts")
    with nullcontext() if folder is None else only_writer(real_folder(folder), "forecast"):
        with Bars(quiet) as bars:
            result = forecaster.outlook(
                horizon,
                [100 * level for level in levels],
                X_df=future,
                measure=forecaster.id_col is None,
                workers=Workers(forecaster.n_jobs, forecaster.dask, folder, bars),
            )
        if out is not None and folder is not None:
            remove_leftovers(out.parent, out.name)
            with writing(out) as temporary:
                if out.suffix == ".parquet":
                    result.plain().to_parquet(temporary, index=False)
                else:
                    harmless_frame(result.plain()).to_csv(temporary, index=False, float_format=DIGITS)
            clear(folder)
    return result


def _write_report(
    forecaster: "SeriesForecaster", result: "SeriesForecast", horizon: int, levels: list[float], path: Path
) -> None:
    """Hold back the last values, forecast them, and write the report."""
    from attangent.forecast.data.panel import SHORTEST
    from attangent.forecast.pipeline.evaluation import QUANTILES
    from attangent.forecast.pipeline.report import HeldBack, write_report

    held_back = None
    if max(len(values) for values in result.series.series) >= horizon + SHORTEST:
        percent = [100 * level for level in levels]
        table = forecaster.cross_validation(None, horizon, level=percent, quantiles=QUANTILES)
        held_back = HeldBack.of(table, result, forecaster.period_)
    write_report(result, path, held_back, shlex.join(["attangent", *sys.argv[1:]]))


def _write_table(frame: "DataFrame", path: Path) -> None:
    with writing(path) as temporary:
        harmless_frame(frame).to_csv(temporary, index=False, float_format=DIGITS)


def _rounded(frame: "DataFrame") -> "DataFrame":
    """Round forecasts to about five digits of their typical size, for display."""
    numbers = frame.select_dtypes("float")
    size = float(numbers.abs().max().max()) if len(numbers) else 0.0
    digits = 4 - math.floor(math.log10(size)) if size > 0 and math.isfinite(size) else 4
    return frame.assign(**numbers.round(max(0, min(digits, 12))))


def _columns_as_json(result: "SeriesForecast") -> dict[str, Any]:
    tables = dict(iter(result.plain().groupby("target", sort=False)))
    targets = [
        {
            "target": name,
            "model": result.models[k],
            "why": result.why[0],
            "expected": result.expected[k],
            "warning": result.warning(k),
            "values": records(tables[name].drop(columns="target")),
        }
        for k, name in enumerate(result.series.ids)
    ]
    return {"targets": targets}


def _series_as_json(period: int, result: "SeriesForecast") -> dict[str, Any]:
    return {
        "series": len(result.series.ids),
        "period": period,
        "why": result.why,
        "errors": result.errors,
        "notes": result.notes,
        "values": records(result.plain()),
    }


def _print_summary(
    forecaster: "SeriesForecaster", result: "SeriesForecast", levels: list[float], quiet: bool
) -> None:
    """Print models and errors; with a column per series also the expected error of each, and warnings."""
    if not quiet:
        typer.echo(f"{len(result.series.ids)} series, period {forecaster.period_}: {result.why[0]}.")
        scored = {name: error for name, error in result.errors.items() if error == error}
        for name, error in sorted(scored.items(), key=itemgetter(1)):
            typer.echo(f"  MASE of {name} on the past: {error:.3f}")
    for k, expected in enumerate(result.expected):
        name = result.series.ids[k]
        if not quiet:
            typer.echo(f"{name}: {result.sentence(k)}.")
        if expected and not quiet:
            shares = ", ".join(
                f"{expected[f'coverage at {level:g}']:.0%} for {level:.3g}" for level in levels
            )
            typer.echo(f"  share of values inside the intervals there: {shares}.")
        if result.warning(k):
            typer.echo(f"{name}: {result.warning(k)}", err=True)


def print_notes(notes: list[str], quiet: bool) -> None:
    """Print what was changed in the data."""
    for note in notes if not quiet else []:
        typer.echo(f"note: {note}")
