"""Let requests to vLLM's server choose a compressed prompt by name.

Start the server with `--middleware attangent.serving.exports.prefix_names.PrefixNames`. A request whose
`model` is the name of a prefix then goes to the base model, after that prefix.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from attangent._core.errors import AttangentError
from attangent.serving.exports.engine_prefix import EnginePrefix, read_prefixes

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_PATHS = ("/v1/chat/completions", "/v1/completions")
_LARGEST = 1 << 26


class PrefixNames:
    """ASGI middleware that puts a prefix's marker before the messages or tokens of a request.

    Args:
        app: The server. Its `kv_transfer_config` lists the folders of the prefixes.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self._prefixes: dict[str, EnginePrefix] | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in _PATHS:
            await self.app(scope, receive, send)
            return
        try:
            body = named(await _body(scope, receive), self._known(scope))
        except ClientDisconnect:
            return
        except AttangentError as error:
            await _refusal(str(error))(scope, receive, send)
            return
        headers = MutableHeaders(raw=list(scope["headers"]))
        headers["content-length"] = str(len(body))
        await self.app({**scope, "headers": headers.raw}, _replayed(body, receive), send)

    def _known(self, scope: Message) -> dict[str, EnginePrefix]:
        if self._prefixes is None:
            settings = scope["app"].state.args.kv_transfer_config
            self._prefixes = read_prefixes(settings.kv_connector_extra_config.get("prefixes", []))
        return self._prefixes


def named(body: bytes, prefixes: Mapping[str, EnginePrefix]) -> bytes:
    """Return a request's body, with a marker in place of the name if its `model` names a prefix.

    Args:
        body: JSON of the request; other bodies are returned unchanged, for the server to refuse.
        prefixes: Prefixes by name.

    Returns:
        The new body.

    Raises:
        AttangentError: If a marker cannot be put before the request.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return body
    prefix = prefixes.get(request["model"]) if _has_name(request) else None
    if prefix is None:
        return body
    del request["model"]  # without one, vLLM takes the base model
    if "messages" in request:
        request["messages"] = _after_messages(prefix, request["messages"])
    else:
        request["prompt"] = _after_tokens(prefix, request.get("prompt"))
    return json.dumps(request).encode()


def _has_name(request: Any) -> bool:
    return isinstance(request, dict) and isinstance(request.get("model"), str)


def _after_messages(prefix: EnginePrefix, messages: Any) -> list[Any]:
    if not prefix.marker.messages:
        raise AttangentError(f"{prefix.name} continues text; send token ids to /v1/completions")
    if not isinstance(messages, list):
        raise AttangentError("messages must be a list")
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    if "system" in roles and prefix.marker.messages[0]["role"] == "system":
        raise AttangentError(f"{prefix.name} already has a system message; leave yours out")
    return [*prefix.marker.messages, *messages]


def _after_tokens(prefix: EnginePrefix, prompt: Any) -> list[int]:
    if not isinstance(prompt, list) or not all(isinstance(token, int) for token in prompt):
        raise AttangentError(f"the prompt after {prefix.name} must be a list of token ids")
    return [*prefix.marker.ids, *prompt]


async def _body(scope: Message, receive: Receive) -> bytes:
    body = bytearray()
    async for part in Request(scope, receive).stream():
        body += part
        if len(body) > _LARGEST:
            raise AttangentError(f"the request has more than {_LARGEST:,} bytes; send less")
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the new body once, then what the client sends."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _refusal(reason: str) -> JSONResponse:
    """Return an error in OpenAI's format."""
    error = {"message": reason, "type": "invalid_request_error", "param": None, "code": 400}
    return JSONResponse({"error": error}, 400)
