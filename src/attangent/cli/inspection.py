"""Commands that inspect a training run, a model or this installation: stages, spectrum and doctor."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from attangent._core.errors import AttangentError
from attangent._version import __version__
from attangent.cli.common_options import AsJson, Quiet
from attangent.cli.output import records

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
        typer.echo(json.dumps({"stages": records(findings.table), "order": order}, indent=1))
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
    from attangent.stages import singular_values

    if plot is not None:
        check_picture(plot)
    check_model_name(model)
    loaded = singular_values.load_model(model)
    values = singular_values.spectrum(loaded, tuple(target or ("q", "k", "v", "o")), layer)
    if plot is not None:
        singular_values.plot_spectrum(values, plot)
    table = singular_values.summarised(values)
    if json_:
        typer.echo(json.dumps(records(table), indent=1))
    else:
        typer.echo(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))


EXTRAS = {
    "adapters": (
        ("transformers", "peft", "accelerate", "datasets"),
        "tune, compress and the claims on language models",
    ),
    "serve": (("fastapi", "uvicorn"), "the server (serve)"),
    "cluster": (("distributed",), "audits and kernels on a Dask cluster (--dask)"),
    "forecast": (("holidays", "pyarrow"), "holidays and Parquet files in forecasts"),
    "logs": (("tensorboard",), "stages from TensorBoard event files"),
    "quantised": (("torchao",), "tune --quantised int8"),
}
_DEPENDENCIES_OF_EXTRAS = {"huggingface_hub": "adapters", "tokenizers": "adapters"}
_REQUIRED = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")


@dataclass(frozen=True)
class Fact:
    """One line: a name, what was found, whether it is fine, and what to do otherwise."""

    name: str
    found: str
    fine: bool = True
    advice: str = ""


def doctor(json_: AsJson = False, quiet: Quiet = False) -> None:
    """Show versions, cores, threads, devices, extras and data, and what each missing part would add.

    With --quiet, show only what is missing.
    """
    facts = [fact for fact in examine() if not (quiet and fact.fine)]
    if json_:
        typer.echo(json.dumps([asdict(fact) for fact in facts], indent=1))
        return
    width = max((len(fact.name) for fact in facts), default=0)
    for fact in facts:
        typer.echo(f"{'ok' if fact.fine else '--'}  {fact.name:{width}}  {fact.found}")
        if fact.advice:
            typer.echo(f"    {'':{width}}  {fact.advice}")


def examine() -> list[Fact]:
    """Return all facts about this installation."""
    return [
        Fact("attangent", __version__),
        Fact("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *(Fact(name, _installed(name) or "missing", _installed(name) is not None) for name in _REQUIRED),
        *(_extra(name) for name in EXTRAS),
        *_threads(),
        _compiled(),
        _data(),
    ]


def extra_with(package: str) -> str | None:
    """Return the extra that installs a package; None if no extra does."""
    extras = (name for name, (packages, _) in EXTRAS.items() if package in packages)
    return next(extras, _DEPENDENCIES_OF_EXTRAS.get(package))


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _extra(name: str) -> Fact:
    packages, purpose = EXTRAS[name]
    missing = [package for package in packages if _installed(package) is None]
    present = ", ".join(f"{package} {_installed(package)}" for package in packages if package not in missing)
    advice = f"pip install 'attangent[{name}]' adds {purpose}" if missing else ""
    return Fact(f"extra {name}", present or "not installed", not missing, advice)


def _threads() -> list[Fact]:
    import joblib
    import torch

    cores = joblib.cpu_count()
    threads = torch.get_num_threads()
    advice = f"set OMP_NUM_THREADS={cores}: more threads than cores wait for each other"
    devices = "cpu" if not torch.cuda.is_available() else f"cpu, {torch.cuda.device_count()} x cuda"
    return [
        Fact("cores", f"{cores} of {os.cpu_count()}"),
        Fact("threads", f"{threads} in torch", threads <= cores, "" if threads <= cores else advice),
        Fact("workers", f"up to {cores} in an audit, 1 thread each"),
        Fact("devices", devices),
    ]


def _compiled() -> Fact:
    from attangent.attention.backends.cpu.decoding import library
    from attangent.attention.backends.cpu.prepare import trusted

    missing = [name for name, code in (("decoding", library()), ("attention", trusted())) if code is None]
    if not missing:
        return Fact("compiled code", "loaded")
    advice = "install a C compiler and reinstall attangent: attention with a prefix gets faster"
    return Fact("compiled code", f"none for {' and '.join(missing)}; torch is used instead", False, advice)


def _data() -> Fact:
    from attangent.data import all_sets, folders, look

    searched = folders()
    missing = [str(folder) for folder in searched if not folder.is_dir()]
    if missing:
        return Fact("data", f"there is no folder {missing[0]}", False, "attangent data list shows its source")
    present = [data_set.name for data_set in all_sets() if all(state.fine for state in look(data_set))]
    if present:
        return Fact("data", f"{', '.join(present)} in {', '.join(map(str, searched))}")
    found = f"no data set in {searched[0]}" if searched else "only the samples in the package"
    return Fact("data", found, False, "attangent data list shows all data sets and where to get them")
