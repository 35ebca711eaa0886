"""The gate in front of every request: key, host, origin, size and time; it counts requests and answers."""

import asyncio
import contextlib
import hmac
import json
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from attangent.serving.protocol import ApiError, ClientGoneError
from attangent.serving.settings import ServeSettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("attangent.serving")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_DISCARDED = 4
"""How many times the largest body is read and dropped so that the client hears why it was rejected."""
_DISCARD_SECONDS = 2.0
_DIGITS = 18
"""Number of digits of a declared length that are read: more say the same."""
_OPEN = ("/", "/health", "/favicon.ico")
"""Paths that need no key; nor do the files of the page. They show nothing of the models and prefixes."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Metrics:
    """Counts of requests and tokens, and a histogram of the time to the first token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._tokens: Counter[str] = Counter()
        self._first: list[int] = [0] * (len(_SECONDS) + 1)
        self._first_sum = 0.0

    def count_request(self, route: str, status: int) -> None:
        """Count a finished request."""
        with self._lock:
            self._requests[route, status] += 1

    def count_answer(self, prompt: int, completion: int, first_token_seconds: float) -> None:
        """Count a finished answer."""
        with self._lock:
            self._tokens["prompt"] += prompt
            self._tokens["completion"] += completion
            self._first_sum += first_token_seconds
            self._first[sum(first_token_seconds > bound for bound in _SECONDS)] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all counters, and gauges by name."""
        with self._lock:
            lines = ["# TYPE attangent_requests_total counter"]
            lines += [
                f'attangent_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ]
            lines.append("# TYPE attangent_tokens_total counter")
            lines += [
                f'attangent_tokens_total{{kind="{kind}"}} {self._tokens[kind]}'
                for kind in ("prompt", "completion")
            ]
            lines += self._histogram()
        for name, value in gauges.items():
            lines += [f"# TYPE attangent_{name} gauge", f"attangent_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "attangent_first_token_seconds"
        lines = [f"# TYPE {name} histogram"]
        total = 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._first, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._first_sum:.6f}", f"{name}_count {total}"]


class Guard:
    """ASGI middleware: refuse what the settings do not allow, bound the rest, and count all.

    Args:
        app: The application.
        settings: Key and limits.
        metrics: Counts requests by path and status.
    """

    def __init__(self, app: Any, settings: ServeSettings, metrics: Metrics):
        self.app = app
        self.settings = settings
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self.settings)
        try:
            is_known = self._check(scope)
            await exchange.read_body(self.settings.most_bytes if is_known else 0)
            await self.app(scope, exchange.receive, exchange.send)
        except ApiError as error:
            await exchange.refuse(error)
        except Exception as error:
            if not isinstance(error, TimeoutError):
                _log.exception("a request failed")
                await exchange.refuse(ApiError(500, "the server failed; its log says why"))
            exchange.status = exchange.status or 408  # the client does not read: the connection is closed
        finally:
            route = scope.get("route")
            self.metrics.count_request(getattr(route, "path", "other"), exchange.status or 499)

    def _check(self, scope: Scope) -> bool:
        """Check the headers; return whether the client may send a body: not without a key that is needed."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.settings.allows_host(_address(f"//{host}").hostname or ""):
            raise ApiError(403, f"the server is not {host!r:.80}; use the address that it printed")
        origin = headers.get("origin")
        if origin is not None and _address(origin).netloc != host:
            raise ApiError(403, f"pages of {origin!r:.80} may not use this server")
        if self.settings.api_key is None:
            return True
        received = headers.get("authorization", "")
        expected = f"Bearer {self.settings.api_key}"
        is_known = hmac.compare_digest(received.encode("latin-1"), expected.encode())
        path = scope["path"]
        if not is_known and path not in _OPEN and not path.startswith("/page/"):
            raise ApiError(
                401, "the API key is missing or wrong; send Authorization: Bearer KEY", code="invalid_api_key"
            )
        return is_known


def _address(url: str) -> SplitResult:
    """Return the parts of a URL; those of one that is malformed are empty."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


class _Exchange:
    """One request and its response, with limits on the size and time of both directions."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: ServeSettings):
        self.settings = settings
        self.status: int | None = None
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body: bytes | None = None
        self._is_read = False
        declared = Headers(scope=scope).get("content-length", "")
        self._declared = int(declared[:_DIGITS]) if declared.isdecimal() else 0

    async def read_body(self, most_bytes: int) -> None:
        """Read the body, within the limits."""
        too_large = ApiError(413, f"the body has over {most_bytes:,} bytes; send less")
        parts = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.body_seconds):
                while not self._is_read:
                    if max(size, self._declared) > most_bytes:
                        raise too_large
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._is_read = not message.get("more_body", False)
        except TimeoutError:
            raise ApiError(408, f"the body took over {self.settings.body_seconds:g} s to arrive") from None
        if size > most_bytes:
            raise too_large
        self._body = b"".join(parts)

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the body, and afterwards what the server receives: that the client has left."""
        if self._body is None:
            return await self._receive()
        body = self._body
        self._body = None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the response; a client that does not read it is given up."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        async with asyncio.timeout(self.settings.send_seconds):
            await self._send(message)

    async def _discard(self) -> None:
        """Read and drop the rest of a body that is somewhat too large.

        A client that is still sending when the connection closes often never reads the answer.
        """
        left = _DISCARDED * self.settings.most_bytes
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while not self._is_read and left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    self._is_read = not message.get("more_body", False)

    async def refuse(self, error: ApiError) -> None:
        """Answer with an error, if nothing was sent."""
        if self.status is not None:
            raise error
        if error.status == 413:
            await self._discard()
        closing = {} if self._is_read else {"connection": "close"}  # the rest of the body is not read
        response = Response(json.dumps(error.as_json()), error.status, closing, "application/json")
        await response(self._scope, self._receive, self.send)
