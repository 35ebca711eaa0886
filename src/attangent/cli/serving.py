"""The command `serve`. Heavy imports wait until it runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from attangent._core.errors import AttangentError
from attangent.cli.common_options import AsJson, Quiet
from attangent.cli.compression import Model


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
    from attangent.adapters.hub import check_model_name, load_causal_lm
    from attangent.serving.server import address_of, build_service, default_store, open_socket, run

    check_model_name(model)
    with open_socket(settings) as listener:
        if not quiet and not json_:
            typer.echo(f"loading {model}", err=True)
        network, tokenizer = load_causal_lm(model)
        folder = default_store() if store is None else store
        service = build_service(model, network, tokenizer, settings, folder, prefixes, adapters)

        def announce() -> None:
            url = address_of(listener)
            names = [each.name for each in service.catalog.all()]
            if json_:
                typer.echo(json.dumps({"url": url, "models": names}))
                return
            typer.echo(f"open {url} in a browser to try it; Ctrl-C ends the server")
            if not quiet:
                typer.echo(f"OpenAI base URL: {url}v1, models: {', '.join(names)}")

        run(service, listener, announce)


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
