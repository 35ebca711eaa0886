"""Commands that inspect a training run or a model: stages and spectrum."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attangent._core.errors import AttangentError
from attangent.cli.common_options import AsJson

if TYPE_CHECKING:
    import pandas as pd

Plot = Annotated[Path | None, typer.Option(help="Write a figure to this file (.png, .svg or .pdf).")]


def stages(
    metrics: Annotated[
        Path, typer.Argument(help="CSV, trainer_state.json, or folder of TensorBoard events to read.")
    ],
    group: Annotated[
        list[str] | None,
        typer.Option(help="Read only this column or tag; repeat for several.", show_default="all losses"),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(help="Take steps from this CSV column.", show_default="step, iteration, epoch, ..."),
    ] = None,
    false_alarms: Annotated[
        float, typer.Option(help="False-alarm rate: share of stage-free curves in which a stage is reported.")
    ] = 0.05,
    warmup: Annotated[
        float | None, typer.Option(help="Ignore readings before this step.", show_default="none")
    ] = None,
    plot: Plot = None,
    json_: AsJson = False,
) -> None:
    """Find the stages of a training run: the steps at which each loss falls after a plateau.

    Onsets and completions come with 95 % intervals, the order of several losses with probabilities.
    """
    from attangent._core.plots import check_picture
    from attangent.stages import find_stages, read_metrics

    if plot is not None:
        check_picture(plot)
    readings = read_metrics(metrics, group, step)
    earliest = float("-inf") if warmup is None else warmup
    if not max(readings["step"]) >= earliest:
        last = max(readings["step"])
        raise AttangentError(f"--warmup {warmup:g} leaves no readings; pass a step up to {last:g}")
    findings = find_stages(readings, warmup=earliest, false_alarms=false_alarms)
    if plot is not None:
        findings.plot(readings, plot)
    if json_:
        order = {"names": findings.order.names, "certainty": findings.order.certainty}
        typer.echo(json.dumps({"stages": _records(findings.table), "order": order}, indent=1))
    else:
        typer.echo(findings.summary())


def spectrum(
    model: Annotated[str, typer.Argument(help="Folder with a model, or its name on the Hugging Face Hub.")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Weights to decompose: q, k, v, o, qk (product per head), mlp, or the end of a module's "
            "name; repeat for several.",
            show_default="q, k, v and o",
        ),
    ] = None,
    layer: Annotated[
        list[int] | None,
        typer.Option(help="Read only this layer, counted from 0; repeat for several.", show_default="all"),
    ] = None,
    plot: Plot = None,
    json_: AsJson = False,
) -> None:
    """Summarise the singular values of a model's weights, one row per matrix.

    Columns: number of values, the largest, the median, and how many carry 90 % of the sum of squares.
    """
    from attangent._core.plots import check_picture
    from attangent.adapters.hub import check_model_name
    from attangent.stages.spectra import singular_values

    if plot is not None:
        check_picture(plot)
    check_model_name(model)
    loaded = singular_values.load_model(model)
    values = singular_values.spectrum(loaded, tuple(target or ("q", "k", "v", "o")), layer)
    if plot is not None:
        singular_values.plot_spectrum(values, plot)
    table = singular_values.summarised(values)
    if json_:
        typer.echo(json.dumps(_records(table), indent=1))
    else:
        typer.echo(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))


def _records(frame: "pd.DataFrame") -> list[dict[str, object]]:
    """Convert rows to JSON values, with null for missing ones."""
    return json.loads(str(frame.to_json(orient="records", double_precision=12)))
