"""A text to generate, and what the scheduler reports about it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from attangent.serving.sampling import Sampler, TokenChance
from attangent.serving.text_stream import TextStream

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class TextPiece:
    """New text of an answer.

    Attributes:
        choice: Number of the answer.
        text: The text; may be empty.
        chances: Log-probabilities of the new tokens, if the request wants them.
        finish: Why the answer ended; None while it grows.
        error: Why the answer failed.
        usage: Counts and memory of the answer, with its last piece.
    """

    choice: int
    text: str = ""
    chances: tuple[TokenChance, ...] = ()
    finish: FinishReason | None = None
    error: Exception | None = None
    usage: "AnswerUsage | None" = None


@dataclass(frozen=True)
class AnswerUsage:
    """Tokens, time and memory of an answer.

    Attributes:
        prompt_tokens: Tokens of the request.
        reused_tokens: Those whose keys and values were known from an earlier request.
        completion_tokens: Tokens of the answer, its end token included.
        kv_bytes: Memory of keys and values: those of the tokens and of the prefix.
        first_token_seconds: Time from the arrival of the request to the first token.
        seconds: Time from the first token to the last.
    """

    prompt_tokens: int
    reused_tokens: int
    completion_tokens: int
    kv_bytes: int
    first_token_seconds: float
    seconds: float


@dataclass
class Generation:
    """One answer that the scheduler writes.

    Attributes:
        network: Name of the network that writes it.
        adapter: Name of the prefix or adapter on this network; None for the bare model.
        ids: Tokens to read.
        most_tokens: Maximum number of new tokens.
        sampler: Chooses tokens.
        stream: Turns them into text.
        deliver: Called with every piece, from the scheduler's thread.
        deadline: End of its time, on the monotonic clock.
        choice: Number of the answer.
        top: Number of most likely tokens to report with each token; None reports no probabilities.
    """

    network: str
    adapter: str | None
    ids: list[int]
    most_tokens: int
    sampler: Sampler
    stream: TextStream
    deliver: Callable[[TextPiece], None]
    deadline: float
    choice: int = 0
    top: int | None = None
    written: list[int] = field(default_factory=list)
    reused: int = 0
    cancelled: bool = False
    started: float = field(default_factory=time.monotonic)
    first: float | None = None

    def cancel(self) -> None:
        """Ask the scheduler to drop the answer before its next step."""
        self.cancelled = True

    def fail(self, error: Exception) -> None:
        """Report that the answer cannot be finished."""
        self.deliver(TextPiece(self.choice, error=error))

    def usage(self, kv_bytes: int) -> AnswerUsage:
        """Return what the answer has taken until now."""
        now = time.monotonic()
        first = now if self.first is None else self.first
        return AnswerUsage(
            len(self.ids), self.reused, len(self.written), kv_bytes, first - self.started, now - first
        )
