"""Commands that look at somebody's run or model: stages and spectrum."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attangent.cli.common_options import AsJson, Quiet

if TYPE_CHECKING:
    import pandas as pd


def stages(
    metrics: Annotated[
        Path, typer.Argument(help="A CSV, a trainer_state.json, or a folder of TensorBoard events.")
    ],
    group: Annotated[
        list[str] | None,
        typer.Option(help="A column or tag to read, all by default; may be given again."),
    ] = None,
    step: Annotated[str | None, typer.Option(help="The CSV's column of steps.")] = None,
    false_alarms: Annotated[
        float, typer.Option(help="In this share of curves without a stage one is found all the same.")
    ] = 0.05,
    least: Annotated[float, typer.Option(help="Falls below this share of the whole are passed over.")] = 0.05,
    warmup: Annotated[float | None, typer.Option(help="Leave out readings before this step.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .svg or .pdf.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the stages of a training run in its losses: where each falls after a plateau, and how surely."""
    from attangent._core.plots import check_picture
    from attangent.stages.detector.detector import find_stages
    from attangent.stages.detector.plots import plot_findings
    from attangent.stages.detector.sources import read_metrics

    if plot is not None:
        check_picture(plot)
    readings = read_metrics(metrics, group, step)
    earliest = float("-inf") if warmup is None else warmup
    found = find_stages(readings, warmup=earliest, false_alarms=false_alarms, least=least)
    if plot is not None:
        plot_findings(found, readings, plot)
    if json_:
        order = {"names": found.order.names, "certainty": found.order.certainty}
        typer.echo(json.dumps({"stages": _records(found.table), "order": order}, indent=1))
    else:
        typer.echo(found.summary())
        _name_picture(plot, quiet)


def spectrum(
    model: Annotated[str, typer.Argument(help="A folder with a model, or a name on the Hugging Face hub.")],
    target: Annotated[
        list[str] | None,
        typer.Option(help="q, k, v, o, qk, mlp or the end of a module's name; may be given again."),
    ] = None,
    layer: Annotated[list[int] | None, typer.Option(help="A layer from 0; all by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture: .png, .svg or .pdf.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Singular values of a model's weights: for each matrix the largest, and how many carry most of it."""
    from attangent._core.plots import check_picture
    from attangent.adapters.hub import check_model_name
    from attangent.stages.spectra.plots import plot_spectrum
    from attangent.stages.spectra.singular_values import spectrum as values_of
    from attangent.stages.spectra.summary import load_model, summarised

    if plot is not None:
        check_picture(plot)
    check_model_name(model)
    values = values_of(load_model(model), tuple(target or ("q", "k", "v", "o")), layer)
    if plot is not None:
        plot_spectrum(values, plot)
    found = summarised(values)
    if json_:
        typer.echo(json.dumps(_records(found), indent=1))
    else:
        typer.echo(found.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
        _name_picture(plot, quiet)


def _name_picture(plot: Path | None, quiet: bool) -> None:
    if plot is not None and not quiet:
        typer.echo(f"picture: {plot}")


def _records(frame: "pd.DataFrame") -> list[dict[str, object]]:
    """Rows as JSON knows them: null for what is not there."""
    return json.loads(str(frame.to_json(orient="records", double_precision=12)))
