"""AnswerSet to a request: submit them to the engine and receive their text while the client is there."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from attangent.serving.catalog import ServedModel
from attangent.serving.errors import ApiError
from attangent.serving.generation import Generation, TextPiece
from attangent.serving.protocol import ChatRequest, CompletionRequest
from attangent.serving.sampling import Sampler
from attangent.serving.scheduler import Scheduler
from attangent.serving.text_stream import TextStream

_UNBOUNDED = 4096
"""Default limit of new tokens for models without a limit of positions."""
_COMPLETION_TOKENS = 16
"""Default limit of new tokens of /v1/completions, as in OpenAI's API."""


class ClientGoneError(Exception):
    """The client has closed the connection."""


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
