"""The command `evaluate`. Heavy imports wait until it runs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attangent._core.files import writing
from attangent._core.tables import check_table
from attangent.cli.common_options import AsJson, Quiet
from attangent.cli.forecasting import DIGITS, DateColumn, IdColumn, id_column, print_notes
from attangent.cli.output import records
from attangent.forecast import Gaps

if TYPE_CHECKING:
    from pandas import DataFrame

WORDS = {
    "mase": "MASE",
    "smape": "sMAPE",
    "wql": "weighted quantile loss",
    "within 80 %": "coverage of 80 %",
    "within 95 %": "coverage of 95 %",
}
"""Headings of the columns on the screen."""


def evaluate(
    file: Annotated[
        list[Path],
        typer.Argument(
            help="CSV file with a header (plain or compressed) or Parquet file; several with --id."
        ),
    ],
    horizon: Annotated[int, typer.Option(help="Number of steps ahead.")],
    id_: IdColumn = None,
    target: Annotated[
        str | None, typer.Option(help="Column of values. Default: every numeric column; y with --id.")
    ] = None,
    date: DateColumn = None,
    period: Annotated[int | None, typer.Option(hidden=True, help="Number of steps per season.")] = None,
    windows: Annotated[
        int, typer.Option(help="Number of earlier ends to forecast from, a horizon apart.")
    ] = 1,
    gaps: Annotated[
        Gaps, typer.Option(help="Meaning of a missing row: zero, interpolate, skip, or auto.")
    ] = "auto",
    drop_short: Annotated[
        bool, typer.Option("--drop-short", hidden=True, help="Accepted; short series are always left out.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare all models on the ends of the series: MASE, sMAPE, quantile loss and coverage of intervals."""
    if out is not None:
        check_table(out, ".csv", ".csv.gz")
    from attangent.forecast import evaluate as compare

    id_ = id_column(file, id_)
    result = compare(
        file if id_ is not None else file[0],
        horizon,
        id_col=id_,
        time_col=date,
        target_col=target or ([] if id_ is None else "y"),
        period=period,
        windows=windows,
        gaps=gaps,
    )
    print_notes(result.notes, quiet or json_)
    if out is not None:
        with writing(out) as temporary:
            result.table.to_csv(temporary, float_format=DIGITS)
    if json_:
        rows = records(result.table.reset_index())
        about = {"best": result.winner, "series": result.series, "windows": windows}
        typer.echo(json.dumps({**about, "left_out": result.left_out, "models": rows}, indent=1))
        return
    typer.echo(_in_words(result.table).to_string())
    if quiet:
        return
    typer.echo(f"best by MASE over {result.series} series and {windows} windows: {result.winner}")
    if result.left_out:
        typer.echo(f"{result.left_out} series were too short to hold {horizon} values out")
    if out is not None:
        typer.echo(f"table: {out}")


def _in_words(table: "DataFrame") -> "DataFrame":
    """Return the table with the words of the documentation and three digits."""
    return table.rename(columns=WORDS).map(lambda number: f"{number:#.3g}".rstrip("."))
