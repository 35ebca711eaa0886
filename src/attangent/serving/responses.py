"""The answers to one request, and the responses made of them in OpenAI's format: whole or streamed."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from attangent import __version__
from attangent.serving.catalog import ServedModel
from attangent.serving.generation import AnswerUsage, Generation, Sampler, TextPiece, TextStream, TokenChance
from attangent.serving.protocol import ApiError, ChatRequest, ClientGoneError, CompletionRequest
from attangent.serving.scheduler import Scheduler

DONE = "data: [DONE]\n\n"


def event(content: Any) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(content)}\n\n"


@dataclass
class Writer:
    """Writes the responses to one request.

    Attributes:
        model: Name of the model.
        tokenizer: Decodes single tokens for log-probabilities.
        chat: Whether these are chat completions.
        prompts: Number of prompts of the request.
    """

    model: str
    tokenizer: Any
    chat: bool
    prompts: int = 1
    _pieces: dict[int, list[TextPiece]] = field(default_factory=dict)
    _id: str = field(default_factory=lambda: secrets.token_hex(12))
    _created: int = field(default_factory=lambda: int(time.time()))

    @property
    def usages(self) -> Sequence[AnswerUsage]:
        """Return what each finished answer took."""
        last = [pieces[-1].usage for pieces in self._pieces.values()]
        return [usage for usage in last if usage is not None]

    def note(self, piece: TextPiece) -> None:
        """Remember a piece for the whole response and the usage."""
        self._pieces.setdefault(piece.choice, []).append(piece)

    def whole(self) -> dict[str, Any]:
        """Return the complete response."""
        choices = []
        for number, pieces in sorted(self._pieces.items()):
            text = "".join(piece.text for piece in pieces)
            content: dict[str, Any] = {"text": text}
            if self.chat:
                content = {"message": {"role": "assistant", "content": text, "refusal": None}}
            chances = [chance for piece in pieces for chance in piece.chances]
            choices.append(self._choice(number, content, chances, pieces[-1].finish))
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._head(kind), "choices": choices, "usage": self.usage()}

    def first(self, choices: int) -> list[dict[str, Any]]:
        """Return the events with which a stream begins: the role of each chat answer."""
        if not self.chat:
            return []
        opening = {"delta": {"role": "assistant", "content": ""}}
        return [self._chunk([self._choice(number, opening, (), None)]) for number in range(choices)]

    def chunk(self, piece: TextPiece) -> dict[str, Any]:
        """Return the event of a piece of text."""
        content: dict[str, Any] = {"text": piece.text}
        if self.chat:
            content = {"delta": {"content": piece.text} if piece.text else {}}
        return self._chunk([self._choice(piece.choice, content, piece.chances, piece.finish)])

    def last(self) -> dict[str, Any]:
        """Return the event with the usage, after all text."""
        return {**self._chunk([]), "usage": self.usage()}

    def usage(self) -> dict[str, Any]:
        """Return counts of tokens, and what OpenAI's API does not report, under `attangent`."""
        usages = self.usages
        answers = max(1, len(usages) // self.prompts)
        prompt = sum(usage.prompt_tokens for usage in usages) // answers
        completion = sum(usage.completion_tokens for usage in usages)
        later = sum(usage.completion_tokens - 1 for usage in usages)
        seconds = max((usage.seconds for usage in usages), default=0.0)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(u.reused_tokens for u in usages) // answers},
            "attangent": {
                "kv_bytes": sum(usage.kv_bytes for usage in usages),
                "first_token_seconds": max((usage.first_token_seconds for usage in usages), default=0.0),
                "tokens_per_second": later / seconds if seconds > 0 else None,
            },
        }

    def _head(self, kind: str) -> dict[str, Any]:
        prefix = "chatcmpl" if self.chat else "cmpl"
        about = {"id": f"{prefix}-{self._id}", "object": kind, "created": self._created, "model": self.model}
        return about | {"system_fingerprint": f"attangent-{__version__}"}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head(kind), "choices": choices}

    def _choice(
        self, number: int, content: dict[str, Any], chances: Sequence[TokenChance], finish: str | None
    ) -> dict[str, Any]:
        logprobs = {"content": [self._chance(each) for each in chances]} if chances else None
        return {"index": number, **content, "logprobs": logprobs, "finish_reason": finish}

    def _chance(self, chance: TokenChance) -> dict[str, Any]:
        top = [self._token(token, logprob) for token, logprob in chance.top]
        return {**self._token(chance.token, chance.logprob), "top_logprobs": top}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self.tokenizer.decode([token])
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


async def streamed(
    writer: Writer, pieces: AsyncIterator[TextPiece], choices: int, usage: bool
) -> AsyncIterator[str]:
    """Yield the events of a stream."""
    for chunk in writer.first(choices):
        yield event(chunk)
    async for piece in pieces:
        writer.note(piece)
        yield event(writer.chunk(piece))
    if usage:
        yield event(writer.last())
    yield DONE


_UNBOUNDED = 4096
"""Default limit of new tokens for models without a limit of positions."""
_COMPLETION_TOKENS = 16
"""Default limit of new tokens of /v1/completions, as in OpenAI's API."""


class AnswerSet:
    """The answers to one request, written together.

    Args:
        model: The model that writes them.
        body: The request.
        prompts: Tokens of every prompt; each gets as many answers as the request wants.
        seconds: Time limit.
    """

    def __init__(
        self,
        model: ServedModel,
        body: ChatRequest | CompletionRequest,
        prompts: Sequence[list[int]],
        seconds: float,
    ):
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[TextPiece] = asyncio.Queue()
        seed = secrets.randbits(62) if body.seed is None else body.seed
        self.generations = [
            Generation(
                model.network,
                model.adapter,
                ids,
                tokens_allowed(model, body, len(ids)),
                _sampler(body, seed, choice),
                TextStream(model.tokenizer, body.stops),
                self._deliver,
                time.monotonic() + seconds,
                number * body.choices + choice,
                body.top if isinstance(body, ChatRequest) else None,
            )
            for number, ids in enumerate(prompts)
            for choice in range(body.choices)
        ]

    def submit(self, engine: Scheduler) -> None:
        """Let the engine write the answers."""
        engine.submit(*self.generations)

    def _deliver(self, piece: TextPiece) -> None:
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)

    async def pieces(self, request: Any) -> AsyncIterator[TextPiece]:
        """Yield pieces of all answers as soon as they are written.

        Raises:
            ClientGoneError: If the client leaves; the engine then drops the answers.
        """
        left = len(self.generations)
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            while left > 0:
                piece = await self._next_piece(gone)
                if piece.error is not None:
                    raise piece.error
                left -= piece.finish is not None
                yield piece
        finally:
            gone.cancel()
            for generation in self.generations:
                generation.cancel()

    async def _next_piece(self, gone: "asyncio.Future[None]") -> TextPiece:
        if not self._pieces.empty():
            return self._pieces.get_nowait()
        coming = asyncio.ensure_future(self._pieces.get())
        try:
            await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
            raise ClientGoneError
        finally:
            coming.cancel()


def _sampler(body: ChatRequest | CompletionRequest, seed: int, choice: int) -> Sampler:
    temperature = 1.0 if body.temperature is None else body.temperature
    return Sampler(temperature, 1.0 if body.top_p is None else body.top_p, seed, choice)


def tokens_allowed(model: ServedModel, body: ChatRequest | CompletionRequest, length: int) -> int:
    """Return the limit of new tokens after a prompt of this length.

    Raises:
        ApiError: If prompt and answer do not fit into the context.
    """
    wanted = body.most_tokens if isinstance(body, ChatRequest) else body.max_tokens or _COMPLETION_TOKENS
    if model.room is None:
        return wanted or _UNBOUNDED
    left = model.room - length
    if left < (wanted or 1):
        raise ApiError(
            400,
            f"{model.name} has room for {model.room} tokens, but the request has {length} and asks for "
            f"{wanted or 1} more; shorten the messages or lower max_tokens",
            "messages" if isinstance(body, ChatRequest) else "prompt",
            "context_length_exceeded",
        )
    return wanted or left


async def _disconnected(request: Any) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
