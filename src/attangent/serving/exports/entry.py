"""Export a compressed prompt to vLLM or llama.cpp and measure in its server how many answers it keeps."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import torch

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent._core.files import read_json, settings_of, write_whole
from attangent._core.progress import Advance, Progress, Stages, no_progress
from attangent.compression.prompt import Reader, sliding_layers
from attangent.compression.questions import Question
from attangent.compression.quiz import ANSWER_TOKENS, holds_words
from attangent.compression.result import read_notes
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer, check_name, write_prefix
from attangent.serving.exports.plain import plain_prefix
from attangent.serving.exports.slot_file import fill_slot

_SECONDS = 600
_LARGEST = 1 << 26


Complete = Callable[[Sequence[int], int], str]
"""A function of tokens and a maximum length that returns the most likely text after them."""


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

    def call(self, path: str, body: Any = None, *keys: str | int) -> Any:
        """Send JSON, or only ask if there is none; return the answer, or what it has under these keys."""
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
        try:
            for key in keys:
                content = content[key]
        except (LookupError, TypeError):
            where = ".".join(map(str, keys))
            raise AttangentError(
                f"{self.url}{path} answers without {where}; pass the address of the engine's own server"
            ) from None
        return content


@dataclass(frozen=True)
class VllmServer(EngineServer):
    """A server that `vllm serve` started."""

    def model(self) -> str:
        """Return the name of the first model that the server offers."""
        return str(self.call("/v1/models", None, "data", 0, "id"))

    def complete(self, ids: Sequence[int], tokens: int) -> str:
        """Return the most likely text of at most `tokens` tokens after `ids`."""
        body = {"model": self.model(), "prompt": list(ids), "max_tokens": tokens, "temperature": 0}
        return str(self.call("/v1/completions", body, "choices", 0, "text"))


@dataclass(frozen=True)
class LlamaServer(EngineServer):
    """A server that `llama-server --slot-save-path` started.

    Attributes:
        slot: The slot to use.
    """

    slot: int = 0

    def complete(self, ids: Sequence[int], tokens: int) -> str:
        """Return the most likely text of at most `tokens` tokens after `ids`."""
        return str(self.read(ids, tokens, "content"))

    def read(self, ids: Sequence[int], tokens: int, *keys: str) -> Any:
        """Let the server continue `ids`, reusing what the slot holds; return its answer as `call` does."""
        body = {"prompt": list(ids), "n_predict": tokens, "temperature": 0, "id_slot": self.slot}
        return self.call("/completion", body | {"cache_prompt": True}, *keys)

    def change_slot(self, action: Literal["erase", "save", "restore"], **options: str) -> None:
        """Empty the slot, or save it to `filename` in the server's slot folder, or read it from there."""
        self.call(f"/slots/{self.slot}?action={action}", options)

    def tokens_of(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Return the tokens of chat messages as the server reads them."""
        text = self.call("/apply-template", {"messages": list(messages)}, "prompt")
        body = {"content": text, "add_special": True, "parse_special": True}
        return list(self.call("/tokenize", body, "tokens"))


EngineName = Literal["vllm", "llama.cpp"]
ENGINES: tuple[EngineName, ...] = ("vllm", "llama.cpp")


class AnswersKept(NamedTuple):
    """How many of the facts that the full prompt knows an engine knows.

    Attributes:
        kept: Facts kept.
        asked: Facts asked for.
    """

    kept: int
    asked: int


@dataclass(frozen=True)
class ExportRequest:
    """A compressed prompt and the engine that shall hold it, checked on creation.

    Attributes:
        folder: Folder that `attangent compress --method plain` wrote.
        engine: vllm or llama.cpp.
        out: Folder to write to.
        name: Name of the prefix.
        server: Address of a running server to measure in; llama.cpp needs one.
        slots: Slot folder of llama.cpp's server.

    Raises:
        AttangentError: If a value is missing or does not fit the engine.
    """

    folder: Path
    engine: EngineName
    out: Path
    name: str
    server: str | None = None
    slots: Path | None = None

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, ENGINES)
        check_name(self.name)
        if self.engine == "llama.cpp" and (self.server is None or self.slots is None):
            raise AttangentError(
                "llama.cpp writes the template of its slot file itself: start `llama-server --slot-save-path "
                "SLOTS` and pass --server and --slots"
            )
        if self.engine == "vllm" and self.slots is not None:
            raise AttangentError("--slots is an option of llama.cpp; leave it out")
        if self.slots is not None and not self.slots.is_dir():
            raise AttangentError(f"there is no folder {self.slots}; pass that of --slot-save-path")
        if self.server is not None:
            self.server_of_engine()
            read_questions(self.folder)

    def server_of_engine(self) -> VllmServer | LlamaServer:
        """Return the server to measure in."""
        assert self.server is not None
        return VllmServer(self.server) if self.engine == "vllm" else LlamaServer(self.server)

    @property
    def slot_file(self) -> str:
        """Return the name of the slot file."""
        return f"{self.name}.bin"


@dataclass(frozen=True)
class Export:
    """A written export.

    Attributes:
        prefix: The prefix.
        folder: Its folder.
        answers: Answers kept in the engine, if they were measured.
    """

    prefix: EnginePrefix
    folder: Path
    answers: AnswersKept | None


def export_prompt(
    model: Any, tokenizer: Any, request: ExportRequest, progress: Progress | None = None
) -> Export:
    """Write a compressed prompt for an engine; with a server, also load and measure it there.

    Args:
        model: The bare model for which the prompt was compressed.
        tokenizer: Its tokenizer.
        request: The prompt and the engine.
        progress: Called with the name of a step, the work done and the total.

    Returns:
        The export.

    Raises:
        AttangentError: If the prompt does not fit the model or the engine.
    """
    if sliding_layers(model):
        raise AttangentError("the model's sliding windows would forget the prefix; use attangent itself")
    prefix = plain_prefix(model, tokenizer, request.folder, request.name)
    write_prefix(prefix, request.out)
    if request.server is None:
        return Export(prefix, request.out, None)
    server = request.server_of_engine()
    if isinstance(server, LlamaServer):
        assert request.slots is not None
        _fill(server, model, prefix, request.slots / request.slot_file)
    with Stages(progress).stage("asking the engine", len(read_questions(request.folder))) as advance:
        answers = ask_engine(server.complete, tokenizer, prefix, request.folder, advance)
    write_prefix(prefix, request.out, {request.engine: answers._asdict()})
    return Export(prefix, request.out, answers)


def _fill(server: LlamaServer, model: Any, prefix: EnginePrefix, path: Path) -> None:
    """Let the server write a slot file for the marker, replace its keys and values and load it."""
    ids = prefix.marker.ids
    if prefix.marker.messages and server.tokens_of(prefix.marker.messages)[: prefix.size] != ids:
        raise AttangentError(
            "the server's chat template or tokenizer gives other tokens than the model's; start it with the "
            "GGUF file of the same model and --jinja"
        )
    # Markers begin alike: the server would reuse the beginning of a prefix that the slot holds.
    server.change_slot("erase")
    server.read(ids, 0)
    server.change_slot("save", filename=path.name)
    if not path.is_file():
        raise AttangentError(f"the server wrote no {path}; pass the folder of its --slot-save-path")
    reference = computed_layers(model, ids)
    write_whole(path, fill_slot(path.read_bytes(), prefix, reference))
    server.change_slot("restore", filename=path.name)


def computed_layers(model: Any, ids: list[int]) -> list[Layer]:
    """Return the keys and values (tokens, heads, d) of all layers that a model computes for tokens."""
    with torch.no_grad():
        cache = model(torch.tensor([ids], device=model.device), use_cache=True).past_key_values
    return [
        Layer(*(tensor[0].transpose(0, 1).cpu() for tensor in (layer.keys, layer.values)))
        for layer in cache.layers
    ]


REPORT = "report.json"


def read_questions(folder: Path) -> list[Question]:
    """Return the questions of a report that the full prompt answers and no prompt does not.

    Raises:
        AttangentError: If the report is missing or does not have the questions as the model reads them.
    """
    answers = read_json(folder / REPORT).get("own")
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        raise AttangentError(f"{folder / REPORT} was not written by `attangent compress`")
    stored = [answer.get("asked") for answer in answers]
    if any(not isinstance(question, dict) or "begun" in question for question in stored):
        raise AttangentError(
            f"{folder / REPORT} is from an earlier version, whose questions were others; run "
            "`attangent compress` again"
        )
    return [settings_of(Question, question, str(folder / REPORT)) for question in stored]


def ask_engine(
    complete: Complete, tokenizer: Any, prefix: EnginePrefix, folder: Path, progress: Advance = no_progress
) -> AnswersKept:
    """Ask an engine that holds a prefix the questions of its report.

    An answer is right if the most likely text has the expected words. As in the report, a fact is kept if at
    least half of the questions that ask for it are answered right.

    Args:
        complete: Asks the engine.
        tokenizer: The model's tokenizer.
        prefix: The prefix.
        folder: Folder that `attangent compress` wrote.
        progress: Called after every question.

    Returns:
        The answers kept.
    """
    reader = Reader(tuple(read_notes(folder)["roles"]))
    replies: dict[int, list[bool]] = {}
    for question in read_questions(folder):
        asked = reader.question(tokenizer, question.text)
        text = complete([*prefix.marker.ids, *asked.tolist()], ANSWER_TOKENS)
        replies.setdefault(question.fact, []).append(holds_words(text, question.expected))
        progress(1)
    kept = sum(2 * sum(right) >= len(right) for right in replies.values())
    return AnswersKept(kept, len(replies))
