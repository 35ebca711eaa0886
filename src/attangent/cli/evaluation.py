"""The commands `evaluate` and `diagnose`: what to expect of forecasts. Heavy imports wait until they run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.files import writing
from attangent.cli.common_options import AsJson, Quiet, Seed, check_file, hint

if TYPE_CHECKING:
    from pandas import DataFrame

    from attangent.forecast.pipeline.diagnosis import Diagnosis


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
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare all models on the ends of many series: MASE, sMAPE, quantile loss, shares within intervals."""
    if out is not None:
        check_file(out)
    from attangent.forecast.data.long_frames import Columns, read_long
    from attangent.forecast.data.periods import period_of
    from attangent.forecast.pipeline.panels.evaluation import evaluate_models

    given = read_long(file, Columns(id_, date, target), drop_short=drop_short)
    print_notes(given.notes, quiet or json_)
    found = evaluate_models(given, horizon, period or period_of(given.series, given.step), windows)
    if out is not None:
        with writing(out) as temporary:
            found.table.to_csv(temporary)
    if json_:
        rows = records(found.table.reset_index())
        about = {"best": found.winner, "series": found.series, "windows": windows}
        typer.echo(json.dumps({**about, "left_out": found.left_out, "models": rows}, indent=1))
        return
    typer.echo(found.table.round(4).to_string())
    if quiet:
        return
    typer.echo(f"best by MASE over {found.series} series and {windows} windows: {found.winner}")
    if found.left_out:
        typer.echo(f"{found.left_out} series were too short to hold {horizon} values out")
    if out is not None:
        typer.echo(f"table: {out}")


def diagnose(
    file: Annotated[Path, typer.Argument(help="A CSV with a header; .gz and the like are fine.")],
    target: Annotated[list[str] | None, typer.Option(help="Only this column; repeat for more.")] = None,
    horizon: Annotated[int | None, typer.Option(help="How many steps ahead.")] = None,
    lookback: Annotated[int | None, typer.Option(help="How many past values a model sees.")] = None,
    date: Annotated[str | None, typer.Option(help="The column of times; looked for by default.")] = None,
    seed: Seed = 0,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what kind of series a CSV holds and which kind of model it rewards."""
    from attangent.forecast.data.frames import read_frame
    from attangent.forecast.pipeline.diagnosis import diagnose as examine

    table = read_frame(file, date, tuple(target or ()))
    frame = table.frame[target] if target else table.frame
    found = examine(frame, horizon=horizon, lookback=lookback, seed=seed)
    if json_:
        typer.echo(json.dumps(asdict(found) | {"notes": table.notes}, indent=1))
        return
    print_notes(table.notes, quiet)
    _print_diagnosis(found)
    hint(f"attangent forecast {file} --horizon {found.horizon} --out forecast.csv", quiet)


def print_notes(notes: list[str], quiet: bool) -> None:
    for note in notes if not quiet else []:
        typer.echo(f"note: {note}")


def records(frame: "DataFrame") -> list[dict[str, Any]]:
    """Rows as JSON knows them: null for what is not there, times as in ISO 8601."""
    return json.loads(str(frame.to_json(orient="records", double_precision=12, date_format="iso")))


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
