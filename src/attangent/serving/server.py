"""Build the service and run it until a signal ends it."""

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attangent._core.errors import AttangentError
from attangent.adapters import hub
from attangent.serving.app import Service, create_app
from attangent.serving.catalog import Catalog
from attangent.serving.compressor import Compressor
from attangent.serving.prefix_store import PrefixStore, StoredPrefix, model_fingerprint
from attangent.serving.scheduler import Scheduler
from attangent.serving.settings import ServeSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MOST_CONNECTIONS = 1024
_BACKLOG = 256


def default_store() -> Path:
    """Return the folder for prefixes: ATTANGENT_STORE or one in the user's data folder."""
    folder = os.environ.get("ATTANGENT_STORE")
    if folder:
        return Path(folder)
    home = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_DATA_HOME")
    return Path(home or Path.home() / ".local" / "share") / "attangent" / "prefixes"


def serve(
    model: str,
    prefixes: Mapping[str, Path] | None = None,
    adapters: Mapping[str, Path] | None = None,
    settings: ServeSettings | None = None,
    store: Path | None = None,
    *,
    on_ready: Callable[[str, list[str]], object] | None = None,
) -> None:
    """Serve a model over OpenAI's API until SIGINT or SIGTERM, as `attangent serve` does.

    Args:
        model: A folder or a Hub id.
        prefixes: Folders that `attangent compress` wrote, by name.
        adapters: Folders that `attangent tune --task causal-lm` wrote, by name.
        settings: Address, key and limits; by default port 8000 of this machine.
        store: Folder for prefixes made over HTTP; by default one in the user's data folder.
        on_ready: Called with the address and the names of all models once requests are answered.

    Raises:
        AttangentError: If the address is taken, or a folder does not fit the model.

    Example:
        Until Ctrl-C::

            serve("model", {"handbook": Path("handbook")}, on_ready=print)
    """
    settings = settings or ServeSettings()
    hub.check_model_name(model)
    with open_socket(settings) as listener:
        network, tokenizer = hub.load_causal_lm(model)
        folder = default_store() if store is None else store
        service = build_service(model, network, tokenizer, settings, folder, prefixes, adapters)
        names = [each.name for each in service.catalog.all()]
        ready = (lambda: None) if on_ready is None else partial(on_ready, address_of(listener), names)
        run(service, listener, ready)


def build_service(
    model: str,
    network: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    settings: ServeSettings,
    store: Path,
    prefixes: Mapping[str, Path] | None = None,
    adapters: Mapping[str, Path] | None = None,
) -> Service:
    """Return a service, not yet started.

    Args:
        model: Source of the network: a folder or a Hub id.
        network: A bare causal language model.
        tokenizer: Its tokenizer.
        settings: Address, key and limits.
        store: Folder for prefixes made over HTTP.
        prefixes: Folders that `attangent compress` wrote, by name.
        adapters: Folders that `attangent tune --task causal-lm` wrote, by name.

    Returns:
        The service.

    Raises:
        AttangentError: If a folder does not fit the model or a name is taken.

    Example:
        With a model and its tokenizer::

            service = build_service("model", network, tokenizer, ServeSettings(), Path("prefixes"))
            app = create_app(service)
    """
    engine = Scheduler(settings.most_rows, settings.most_waiting, settings.reuse_bytes)
    stored = PrefixStore(store, model_fingerprint(network, tokenizer))
    catalog = Catalog(engine, model, network, tokenizer)
    for name, folder in (prefixes or {}).items():
        catalog.add_prefix(name, folder)
    for name, folder in (adapters or {}).items():
        catalog.add_adapter(name, folder)

    def serve_prefix(prefix: StoredPrefix) -> None:
        catalog.add_prefix(prefix.name, stored.prefix_folder(prefix.id))

    for prefix in stored.all():
        if prefix.status == "ready":
            try:
                serve_prefix(prefix)
            except AttangentError as error:
                stored.update(prefix.id, status="failed", error=str(error))
    return Service(settings, engine, catalog, stored, Compressor(stored, model, serve_prefix))


def open_socket(settings: ServeSettings) -> socket.socket:
    """Return a socket that listens on the address.

    Raises:
        AttangentError: If the address is taken or not one of this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise AttangentError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; choose "
            "another one with --port"
        ) from None


def address_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def run(service: Service, listener: socket.socket, on_ready: Callable[[], object] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM; running answers are finished first, a second SIGINT ends at once."""
    import uvicorn

    class _Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_ready()

    config = uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=int(service.settings.request_seconds),
        h11_max_incomplete_event_size=1 << 16,
    )
    _Server(config).run(sockets=[listener])
