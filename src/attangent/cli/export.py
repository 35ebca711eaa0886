"""The command `export`: a compressed prompt or a tuned model for other engines."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attangent._core.errors import AttangentError
from attangent._core.progress import Bars
from attangent.cli.common_options import AsJson, Quiet

if TYPE_CHECKING:
    from attangent.serving.exports.entry import Export, ExportRequest

Target = Literal["vllm", "llama.cpp"]
_PROMPT_TARGETS = ("vllm", "llama.cpp")


def export(
    folder: Annotated[Path, typer.Argument(help="Folder that `attangent compress --method plain` wrote.")],
    to: Annotated[Target, typer.Option(help="Engine to export to.")],
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
    """Write a compressed prompt for vLLM or llama.cpp, and count the answers that it keeps there.

    llama.cpp needs a running server, which writes the template of the slot file.
    """
    _check_folder(folder)
    _export_prompt(folder, to, out, model, name, server, slots, json_, quiet)


def _check_folder(folder: Path) -> None:
    from attangent.tuning.folders.tuned import is_tuned

    if not folder.is_dir():
        raise AttangentError(f"there is no folder {folder}; pass one that `attangent compress` wrote")
    if is_tuned(folder):
        raise AttangentError(
            f"{folder} holds a tuned model; only compressed prompts can be exported to "
            f"{' and '.join(_PROMPT_TARGETS)}"
        )


def _export_prompt(
    folder: Path,
    to: Target,
    out: Path | None,
    model: str | None,
    name: str | None,
    server: str | None,
    slots: Path | None,
    json_: bool,
    quiet: bool,
) -> None:
    from attangent.serving.exports.entry import ExportRequest, export_prompt
    from attangent.serving.exports.plain import base_model

    base = base_model(folder)
    place = folder / to if out is None else out
    request = ExportRequest(folder, to, place, name or folder.resolve().name, server, slots)
    from attangent.cli.compression import load_model

    network, tokenizer = load_model(model or base)
    with Bars(quiet or json_) as bars:
        export = export_prompt(network, tokenizer, request, bars.show)
    if json_:
        typer.echo(json.dumps(_as_json(export), indent=1))
    elif not quiet:
        for line in _lines(export, request, model or base):
            typer.echo(line)


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
