"""The HTTP application: OpenAI's endpoints, prefixes, the page, health and metrics."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from attangent import __version__
from attangent._core.errors import AttangentError
from attangent.compression.prompt import tokens_of
from attangent.compression.session import plain_ids
from attangent.serving.catalog import Catalog, ServedModel
from attangent.serving.compressor import Compressor
from attangent.serving.guard import Guard, Metrics
from attangent.serving.prefix_store import PrefixStore
from attangent.serving.protocol import (
    ApiError,
    ChatRequest,
    ClientGoneError,
    CompletionRequest,
    PrefixRequest,
)
from attangent.serving.responses import AnswerSet, Writer, event, streamed
from attangent.serving.scheduler import BusyError, OutOfTimeError, Scheduler
from attangent.serving.settings import ServeSettings

_log = logging.getLogger("attangent.serving")
_PAGE = Path(__file__).parent / "page"
_FILES = {"app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}
_MOST_PROMPTS = 64
_LONGEST_NAME = 100
_ERRORS: dict[type[Exception], int] = {BusyError: 429, OutOfTimeError: 504, AttangentError: 400}


@dataclass
class Service:
    """Everything that requests use.

    Attributes:
        settings: Key and limits.
        engine: Writes answers.
        catalog: The models by name.
        store: Prefixes made over HTTP.
        compressor: Makes them.
        metrics: Counters.
    """

    settings: ServeSettings
    engine: Scheduler
    catalog: Catalog
    store: PrefixStore
    compressor: Compressor
    metrics: Metrics = field(default_factory=Metrics)
    # One thread: tokenizers may not be used by two at once.
    reading: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def start(self) -> None:
        """Start to answer and to compress."""
        self.engine.start()
        self.compressor.start()

    def stop(self) -> None:
        """End all threads and processes."""
        self.compressor.stop()
        self.engine.stop()
        self.reading.shutdown()

    async def tokens(self, read: Callable[[], Any]) -> list[int]:
        """Return the tokens that a function reads, in the thread of the tokenizer."""
        try:
            ids = await asyncio.get_running_loop().run_in_executor(self.reading, read)
        except AttangentError:
            raise
        except Exception as error:  # templates raise what they like
            raise ApiError(
                400, f"the chat template refuses the messages: {error!s:.300}", "messages"
            ) from None
        return ids.tolist() if hasattr(ids, "tolist") else list(ids)

    def count(self, writer: Writer) -> None:
        """Count the finished answers of a response."""
        for usage in writer.usages:
            self.metrics.count_answer(usage.prompt_tokens, usage.completion_tokens, usage.first_token_seconds)


def create_app(service: Service) -> FastAPI:
    """Return the HTTP application, which starts and stops the service.

    Args:
        service: What `build_service` returned.

    Returns:
        A FastAPI application for any ASGI server.

    Example:
        With a service::

            app = create_app(service)
            uvicorn.run(app)
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(
        title="attangent",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.service = service
    app.add_middleware(Guard, settings=service.settings, metrics=service.metrics)  # pyright: ignore[reportArgumentType]
    _handle_errors(app)
    _add_page(app)
    _add_models(app, service)
    _add_completions(app, service)
    _add_prefixes(app, service)
    return app


def _json(content: Any, status: int = 200) -> Response:
    # ASCII only: a lone surrogate, which JSON can hold, cannot be written as UTF-8
    return Response(json.dumps(content), status, media_type="application/json")


def _as_api_error(error: Exception) -> ApiError:
    """Return an error with its status; what is not the client's fault says no more than that."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, str(error.detail))
    status = next((status for kind, status in _ERRORS.items() if isinstance(error, kind)), None)
    if status is None:
        _log.error("a request failed", exc_info=error)
        return ApiError(500, "the server failed; its log says why")
    return ApiError(status, str(error))


def _handle_errors(app: FastAPI) -> None:
    async def known(_: Request, error: Exception) -> Response:
        answer = _as_api_error(error)
        return _json(answer.as_json(), answer.status)

    for kind in (AttangentError, ValidationError, HTTPException):
        app.add_exception_handler(kind, known)


def _invalid(error: ValidationError) -> ApiError:
    """Return the first problem of a request that does not fit its model, and its parameter."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])[:_LONGEST_NAME] or None
    if first["type"] == "extra_forbidden":
        return ApiError(
            400, f"the parameter {name} is not supported; leave it out", name, "unsupported_parameter"
        )
    return ApiError(400, f"{name or 'body'}: {first['msg']}", name, "invalid_value")


def _add_page(app: FastAPI) -> None:
    @app.get("/")
    async def page() -> Response:
        return FileResponse(_PAGE / "index.html", media_type="text/html")

    @app.get("/page/{name}")
    async def page_file(name: str) -> Response:
        if name not in _FILES:
            raise ApiError(404, "there is no such file")
        return FileResponse(_PAGE / name, media_type=_FILES[name])


def _add_models(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Response:
        alive = service.engine.is_alive
        return _json({"status": "ok" if alive else "the engine has stopped"}, 200 if alive else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        engine = service.engine
        gauges = {"running": engine.running, "waiting": engine.waiting, "kv_bytes": engine.kv_bytes}
        gauges |= {"models": len(service.catalog.all()), "steps": engine.steps}
        return PlainTextResponse(service.metrics.text(gauges))

    @app.get("/v1/models")
    async def models() -> Response:
        return _json({"object": "list", "data": [model.as_json() for model in service.catalog.all()]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        return _json(service.catalog.get(name).as_json())


def _add_completions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = ChatRequest.model_validate(_object(await request.body()))
        model = service.catalog.get(body.model)
        messages = [message.plain() for message in body.messages]
        ids = await service.tokens(lambda: model.reader.chat(model.tokenizer, messages))
        return await _answer(service, model, body, [ids], request)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        body = CompletionRequest.model_validate(_object(await request.body()))
        model = service.catalog.get(body.model)
        if not 1 <= len(body.prompts) <= _MOST_PROMPTS:
            raise ApiError(400, f"prompt must hold 1 to {_MOST_PROMPTS} prompts", "prompt")
        prompts = [await _prompt_ids(service, model, prompt) for prompt in body.prompts]
        return await _answer(service, model, body, prompts, request)


def _object(content: bytes) -> Any:
    """Return the JSON object of a body."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):  # ValueError also for numbers with thousands of digits
        parsed = None
    if not isinstance(parsed, dict):
        raise ApiError(
            400, 'the body is not a JSON object; send one such as {"model": ...}', code="invalid_json"
        )
    return parsed


async def _prompt_ids(service: Service, model: ServedModel, prompt: str | list[int]) -> list[int]:
    """Return the tokens of a prompt; text after a prefix has no special tokens."""
    if isinstance(prompt, str):
        read = tokens_of if model.kind == "prefix" else plain_ids
        return await service.tokens(lambda: read(model.tokenizer, prompt))
    size = service.engine.batches[model.network].vocabulary
    if not all(0 <= token < size for token in prompt):
        raise ApiError(400, f"a token of prompt is not between 0 and {size - 1}", "prompt")
    return prompt


async def _answer(
    service: Service,
    model: ServedModel,
    body: ChatRequest | CompletionRequest,
    prompts: Sequence[list[int]],
    request: Request,
) -> Response:
    is_chat = isinstance(body, ChatRequest)
    if not all(prompts):
        raise ApiError(400, "the prompt has no tokens; write some text", "messages" if is_chat else "prompt")
    answers = AnswerSet(model, body, prompts, service.settings.request_seconds)
    answers.submit(service.engine)
    writer = Writer(model.name, model.tokenizer, is_chat, len(prompts))
    pieces = answers.pieces(request)
    if body.stream:
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        events = streamed(writer, pieces, len(answers.generations), with_usage)
        return StreamingResponse(_guarded(service, writer, events), media_type="text/event-stream")
    async for piece in pieces:
        writer.note(piece)
    service.count(writer)
    return _json(writer.whole())


async def _guarded(service: Service, writer: Writer, events: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the events; an error becomes the last one, as OpenAI's clients expect it."""
    try:
        async for text in events:
            yield text
        service.count(writer)
    except ClientGoneError:
        return
    except Exception as error:
        yield event(_as_api_error(error).as_json())


def _add_prefixes(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/prefixes")
    async def create(request: Request) -> Response:
        body = await _prefix_request(request)
        if not body.text.strip():
            raise ApiError(400, "text has only blanks; send the document", "text")
        is_stored = any(prefix.name == body.name for prefix in store.all())
        if body.name is not None and body.name in service.catalog and not is_stored:
            raise ApiError(409, f"the name {body.name!r} is taken; choose another", "name", "name_taken")
        prefix, is_new = await asyncio.to_thread(store.add, body)
        if is_new:
            service.compressor.add(prefix)
        return _json(prefix.as_json(), 202 if is_new else 200)

    @app.get("/v1/prefixes")
    async def prefixes() -> Response:
        return _json({"object": "list", "data": [prefix.as_json() for prefix in store.all()]})

    @app.get("/v1/prefixes/{name}")
    async def prefix(name: str) -> Response:
        return _json(store.get(name).as_json())

    @app.get("/v1/prefixes/{name}/text")
    async def text(name: str) -> Response:
        return _json({"text": store.get(name).request.text})

    @app.delete("/v1/prefixes/{name}")
    async def delete(name: str) -> Response:
        prefix = store.get(name)
        service.catalog.remove(prefix.name)
        await asyncio.to_thread(store.delete, prefix.id)
        service.compressor.cancel(prefix.id)
        return _json({"id": prefix.id, "object": "prefix", "deleted": True})


async def _prefix_request(request: Request) -> PrefixRequest:
    """Return the request: JSON, or the text itself with the options in the query."""
    content = await request.body()
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    options: dict[str, Any] = dict(request.query_params)
    if kind.startswith("text/"):
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ApiError(
                400, f"the text is not UTF-8 ({error.reason} at byte {error.start})", "text"
            ) from None
        if options.get("size", "").isdecimal():
            options["size"] = int(options["size"][:9])
        return PrefixRequest.model_validate({**options, "text": text})
    if kind not in ("application/json", "application/x-www-form-urlencoded"):
        raise ApiError(415, f"the content type {kind!r:.60} is not supported; send JSON or text/plain")
    if options:
        raise ApiError(400, "options in the address are for text/plain; put them into the JSON")
    return PrefixRequest.model_validate(_object(content))
