"""Talk to a running server of vLLM or llama.cpp."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from attangent._core.errors import AttangentError

_SECONDS = 600
_LARGEST = 1 << 26


class Engine(Protocol):
    """An engine that continues tokens."""

    def complete(self, ids: Sequence[int], tokens: int) -> str:
        """Return the most likely text of at most `tokens` tokens after `ids`."""
        ...


@dataclass(frozen=True)
class EngineServer:
    """A server's address.

    Attributes:
        url: Its address, such as http://127.0.0.1:8000.
    """

    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise AttangentError(f"--server must be like http://127.0.0.1:8000 (got {self.url})")

    def call(self, path: str, body: Any = None) -> dict[str, Any]:
        """Send JSON, or only ask if there is none, and return the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url.rstrip("/") + path, data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=_SECONDS) as answer:
                content = json.loads(answer.read(_LARGEST))
        except HTTPError as error:
            reason = error.read(500).decode(errors="replace")
            raise AttangentError(f"{self.url}{path} answers with status {error.code}: {reason}") from None
        except (URLError, OSError, ValueError) as error:
            raise AttangentError(f"cannot talk to {self.url}: {error}; start the server first") from None
        if not isinstance(content, dict):
            raise AttangentError(f"{self.url}{path} answers with a {type(content).__name__}, not an object")
        return content


@dataclass(frozen=True)
class VllmServer(EngineServer):
    """A server that `vllm serve` started."""

    def model(self) -> str:
        """Return the name of the first model that the server offers."""
        return str(self.call("/v1/models")["data"][0]["id"])

    def complete(self, ids: Sequence[int], tokens: int) -> str:
        """Return the most likely text of at most `tokens` tokens after `ids`."""
        body = {"model": self.model(), "prompt": list(ids), "max_tokens": tokens, "temperature": 0}
        return str(self.call("/v1/completions", body)["choices"][0]["text"])


@dataclass(frozen=True)
class LlamaServer(EngineServer):
    """A server that `llama-server --slot-save-path` started.

    Attributes:
        slot: The slot to use.
    """

    slot: int = 0

    def complete(self, ids: Sequence[int], tokens: int) -> str:
        """Return the most likely text of at most `tokens` tokens after `ids`."""
        return str(self.read(ids, tokens)["content"])

    def read(self, ids: Sequence[int], tokens: int) -> dict[str, Any]:
        """Return the server's answer to `ids`; it reuses what the slot holds."""
        body = {"prompt": list(ids), "n_predict": tokens, "temperature": 0, "id_slot": self.slot}
        return self.call("/completion", body | {"cache_prompt": True})

    def erase(self) -> None:
        """Empty the slot, so that nothing in it is reused."""
        self.call(f"/slots/{self.slot}?action=erase", {})

    def save(self, file: str) -> None:
        """Save the slot to a file in the server's slot folder."""
        self.call(f"/slots/{self.slot}?action=save", {"filename": file})

    def restore(self, file: str) -> None:
        """Read the slot from a file in the server's slot folder."""
        self.call(f"/slots/{self.slot}?action=restore", {"filename": file})

    def tokens_of(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Return the tokens of chat messages as the server reads them."""
        text = self.call("/apply-template", {"messages": list(messages)})["prompt"]
        body = {"content": text, "add_special": True, "parse_special": True}
        return list(self.call("/tokenize", body)["tokens"])
