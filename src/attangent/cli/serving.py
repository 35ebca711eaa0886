"""The commands `serve`, and `export` for other engines. Heavy imports wait until one of them runs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent.cli.common_options import AsJson, Quiet
from attangent.cli.compression import Model
from attangent.cli.tuning import check_base

if TYPE_CHECKING:
    from attangent.serving.exports.entry import Export, ExportRequest


def serve(
    model: Model,
    prefix: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER of a prompt that `attangent compress` wrote; repeat for several."),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER of a model tuned with `--task causal-lm`; repeat for several."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to bind to; any but this machine's own needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="ATTANGENT_API_KEY",
            show_envvar=True,
            help="Key that requests must send; the variable keeps it out of the list of processes.",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Folder for prefixes made over HTTP.", show_default="attangent/prefixes in your data folder"
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Maximum number of answers written together.")] = 32,
    seconds: Annotated[float, typer.Option(help="Time limit of an answer.")] = 600.0,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Serve a model, compressed prompts and tuned adapters over OpenAI's API, with a page to try them.

    Open the printed address in a browser to compress a document and chat with it. Ctrl-C finishes running
    answers and ends the server. With --json it prints the address and the names of the models.
    """
    prefixes = _folders("prefix", prefix)
    adapters = _folders("adapter", adapter)
    import fastapi  # noqa: F401  names the missing extra before a model is loaded
    import uvicorn  # noqa: F401

    from attangent.serving.settings import ServeSettings

    settings = ServeSettings(host, port, api_key, rows, request_seconds=seconds)
    from attangent.serving import server

    def announce(url: str, names: list[str]) -> None:
        if json_:
            typer.echo(json.dumps({"url": url, "models": names}))
            return
        typer.echo(f"open {url} in a browser to try it; Ctrl-C ends the server")
        if not quiet:
            typer.echo(f"OpenAI base URL: {url}v1, models: {', '.join(names)}")

    if not quiet and not json_:
        typer.echo(f"loading {model}", err=True)
    server.serve(model, prefixes, adapters, settings, store, on_ready=announce)


def _folders(option: str, values: list[str] | None) -> dict[str, Path]:
    """Return the folders of NAME=FOLDER options by name."""
    folders: dict[str, Path] = {}
    for value in values or []:
        name, equals, folder = value.partition("=")
        if not (name and equals and folder):
            raise AttangentError(f"--{option} must be NAME=FOLDER (got {value!r:.80})")
        if name in folders:
            raise AttangentError(f"--{option} names {name!r} twice; choose another name")
        if not Path(folder).is_dir():
            raise AttangentError(f"--{option} {name}: there is no folder {folder}")
        folders[name] = Path(folder)
    return folders


Target = Literal["vllm", "llama.cpp", "transformers", "sentence-transformers"]
_PROMPT_TARGETS = ("vllm", "llama.cpp")
_TUNED_TARGETS = ("transformers", "sentence-transformers")


def export(
    folder: Annotated[
        Path,
        typer.Argument(help="Folder that `attangent compress --method plain` or `attangent tune` wrote."),
    ],
    to: Annotated[Target, typer.Option(help="Engine or library to export to.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to.", show_default="one named after the engine, in FOLDER"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="New location of the base model, if it has moved.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the prefix in the engine.", show_default="that of FOLDER")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="Address of the running engine, to measure the answers kept in it."),
    ] = None,
    slots: Annotated[
        Path | None, typer.Option(help="Folder that llama-server has as --slot-save-path.")
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a compressed prompt for vLLM or llama.cpp, or a tuned classifier for transformers.

    For a prompt, count the answers that it keeps in the engine; llama.cpp needs a running server, which
    writes the template of the slot file.
    """
    target = folder / to if out is None else out
    if _is_tuned_folder(folder, to):
        if name or server or slots:
            raise AttangentError("--name, --server and --slots are for compressed prompts; leave them out.")
        _export_tuned(folder, to, target, model, json_, quiet)
        return
    from attangent.serving.exports.entry import ExportRequest, export_prompt
    from attangent.serving.exports.plain import base_model

    base = base_model(folder)
    engine: Any = to  # one of the two engines: tuned folders go to the others
    request = ExportRequest(folder, engine, target, name or folder.resolve().name, server, slots)
    from attangent.adapters.hub import load_causal_lm

    network, tokenizer = load_causal_lm(model or base)
    with Bars(quiet or json_) as bars:
        result = export_prompt(network, tokenizer, request, bars.show)
    if json_:
        typer.echo(json.dumps(_as_json(result), indent=1))
    elif not quiet:
        for line in _lines(result, request, model or base):
            typer.echo(line)


def _is_tuned_folder(folder: Path, to: Target) -> bool:
    """Return whether `attangent tune` wrote the folder; raise if it cannot be exported to this target."""
    from attangent.tuning.folders.tuned import is_tuned

    if not folder.is_dir():
        raise AttangentError(
            f"there is no folder {folder}; pass one that `attangent compress` or `attangent tune` wrote"
        )
    tuned = is_tuned(folder)
    targets = _TUNED_TARGETS if tuned else _PROMPT_TARGETS
    if to not in targets:
        content = "a tuned model" if tuned else "no tuned model"
        raise AttangentError(f"{folder} holds {content}; export it to {' or '.join(targets)}, not to {to}")
    return tuned


def _export_tuned(folder: Path, to: Any, out: Path, model: str | None, json_: bool, quiet: bool) -> None:
    from attangent.tuning.folders.portable import export_tuned

    check_base(folder, model)
    export_tuned(folder, out, to, model)
    if json_:
        typer.echo(json.dumps({"folder": str(out), "to": to}, indent=1))
    elif not quiet:
        typer.echo(f"exported to {out}; {out / 'README.md'} shows how to load it")


def _as_json(export: "Export") -> dict[str, Any]:
    prefix = export.prefix
    answers = None if export.answers is None else export.answers._asdict()
    return {
        "folder": str(export.folder),
        "name": prefix.name,
        "size": prefix.size,
        "prompt_tokens": prefix.prompt_tokens,
        "answers": answers,
    }


def _lines(export: "Export", request: "ExportRequest", model: str) -> list[str]:
    prefix = export.prefix
    lines = [f"{prefix.name}: {prefix.size} tokens instead of {prefix.prompt_tokens}, in {export.folder}"]
    if export.answers is not None:
        lines.append(f"answers kept in {request.engine}: {export.answers.kept} of {export.answers.asked}")
    lines += (
        _vllm_lines(export, request, model) if request.engine == "vllm" else _llama_lines(export, request)
    )
    return lines


def _vllm_lines(export: "Export", request: "ExportRequest", model: str) -> list[str]:
    settings = {
        "kv_connector": "AttangentConnector",
        "kv_connector_module_path": "attangent.serving.vllm_connector",
        "kv_role": "kv_consumer",
        "kv_connector_extra_config": {"prefixes": [str(export.folder)]},
    }
    lines = [
        f"start: vllm serve {model} --middleware attangent.serving.exports.prefix_names.PrefixNames "
        f"--kv-transfer-config '{json.dumps(settings)}'",
        f'ask: send "model": "{export.prefix.name}" and no system message',
    ]
    if export.answers is None:
        lines.append(f"measure: attangent export {request.folder} --to vllm --server http://127.0.0.1:8000")
    return lines


def _llama_lines(export: "Export", request: "ExportRequest") -> list[str]:
    body = json.dumps({"filename": request.slot_file})
    kind = "messages" if export.prefix.marker.messages else "tokens"
    return [
        f"load: curl '{request.server}/slots/0?action=restore' -d '{body}'",
        f'ask: send "id_slot": 0 and begin with the {kind} in {export.folder / "prefix.json"}',
    ]
