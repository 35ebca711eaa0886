"""The commands `data list`, `path`, `check`, `add` and `get`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent.cli.common_options import AsJson, Quiet, hint

if TYPE_CHECKING:
    from attangent.data.catalogue import DataSet

Names = Annotated[list[str] | None, typer.Argument(help="Data sets by name; all by default.")]
INCOMPLETE = 1
"""The exit code of `data check` where a file is missing or not as listed."""


def list_(names: Names = None, json_: AsJson = False, quiet: Quiet = False) -> None:
    """Show the data sets that claims, tests and benchmarks can use: licence, source, what is here."""
    from attangent.data.samples import SAMPLES, sample

    chosen = _chosen(names)
    if json_:
        typer.echo(json.dumps([_described(one) for one in chosen], indent=1))
        return
    for one in chosen:
        _print_set(one)
    if quiet or names:
        return
    for name, what in SAMPLES.items():
        typer.echo(f"ok  {name}: {what}\n    part of the package: {sample(name)}; public domain")
    hint("attangent data get NAME fetches a set; attangent data add FOLDER names a folder that has some")


def path(
    name: Annotated[str | None, typer.Argument(help="A data set or a sample.")] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show where data is looked for, or where the files of one data set are."""
    from attangent.data.catalogue import get_set
    from attangent.data.places import VARIABLE, folders, settings_file
    from attangent.data.samples import SAMPLES, sample
    from attangent.data.states import look

    if name in SAMPLES:
        found = [str(sample(str(name)))]
    elif name is not None:
        found = [str(state.place) for state in look(get_set(name)) if state.place is not None]
    else:
        found = [str(folder) for folder in folders()]
    if json_:
        about = {"paths": found, "variable": VARIABLE, "settings": str(settings_file())}
        typer.echo(json.dumps(about, indent=1))
        return
    for one in found:
        typer.echo(one)
    if not found and name is not None:
        raise AttangentError(f"no file of {name} is here: `attangent data list {name}` says where to get it")
    if name is None and not quiet:
        typer.echo(f"{VARIABLE} comes first; folders that were added are kept in {settings_file()}", err=True)


def check(names: Names = None, json_: AsJson = False, quiet: Quiet = False) -> None:
    """Compare the files that are here with the list, by checksum.

    The exit code is 1 where a file of a named set is missing, or where any file is not as listed.
    """
    from attangent.data.states import look

    states = [(one.name, state) for one in _chosen(names) for state in look(one, digests=True)]
    if json_:
        rows = [
            {"set": name, "file": s.file.path, "state": s.state, "place": s.place and str(s.place)}
            for name, s in states
        ]
        typer.echo(json.dumps(rows, indent=1))
    else:
        for name, state in states:
            if not (quiet and state.fine):
                typer.echo(f"{state.state:13} {name:22} {state.place or state.file.path}")
    if any(not state.fine and (names or state.place is not None) for _, state in states):
        raise typer.Exit(INCOMPLETE)


def add(
    folder: Annotated[Path, typer.Argument(help="A folder that holds data sets, by the names of the list.")],
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remember a folder that holds data; it is looked in from now on."""
    from attangent.data.catalogue import all_sets
    from attangent.data.places import add_folder

    kept = add_folder(folder)
    files = [file.path for one in all_sets() for file in one.files]
    there = [name for name in files if (folder / name).is_file()]
    if json_:
        typer.echo(
            json.dumps({"folder": str(folder.resolve()), "settings": str(kept), "files": there}, indent=1)
        )
        return
    if not quiet:
        typer.echo(f"{folder.resolve()} holds {len(there)} of {len(files)} files; remembered in {kept}")
    _warn_of_variable()
    hint("attangent data check", quiet)


def get(
    names: Annotated[list[str], typer.Argument(help="Data sets by name.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to put them in; attangent-data here by default.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(help="Take the files from this address instead of their own.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch data sets by name, check them and remember the folder. The only command that downloads data.

    A download that was cut off goes on where it stopped when the same command is given again.
    """
    from attangent.data.fetching import fetch
    from attangent.data.places import add_folder

    folder = out or Path("attangent-data")
    chosen = _chosen(names)
    found = {}
    with Bars(quiet or json_) as bars:
        for one in chosen:
            found[one.name] = fetch(one, folder, mirror or "", bars.show)
    kept = add_folder(folder)
    if json_:
        files = {name: [str(place) for place in got.places] for name, got in found.items()}
        typer.echo(json.dumps({"files": files, "settings": str(kept)}, indent=1))
        return
    for one in chosen if not quiet else []:
        got = found[one.name]
        typer.echo(f"{one.name}: {len(got.places)} files in {folder}, {got.new} of them new; {one.licence}")
    _warn_of_variable()
    hint("attangent data list", quiet)


def _warn_of_variable() -> None:
    from attangent.data.places import VARIABLE, added_folders, folders

    if folders() != added_folders():
        typer.echo(f"warning: {VARIABLE} is set to {folders()[0]} and wins over added folders", err=True)


def _chosen(names: list[str] | None) -> "list[DataSet]":
    from attangent.data.catalogue import all_sets, get_set

    return [get_set(name) for name in names] if names else list(all_sets())


def _described(one: "DataSet") -> dict[str, Any]:
    from attangent.data.states import look

    there = {state.file.path: state.place and str(state.place) for state in look(one)}
    files = [asdict(file) | {"place": there[file.path]} for file in one.files]
    return {**asdict(one), "files": files, "can_be_fetched": one.can_be_fetched}


def _print_set(one: "DataSet") -> None:
    from attangent.data.states import look

    states = look(one)
    here = sum(state.fine for state in states)
    mark = "ok" if here == len(states) else "--"
    typer.echo(f"{mark}  {one.name}: {one.what}")
    typer.echo(f"    {here} of {len(states)} files here; licence: {one.licence}")
    typer.echo(f"    from {one.source}" + ("" if one.can_be_fetched else " (by hand)"))
    typer.echo(f"    gives {one.used_by}")
