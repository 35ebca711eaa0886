"""A text to generate: how its tokens are chosen and become text, and what the scheduler reports about it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.random import generator

_UNFINISHED = "\ufffd"
"""A decoder writes this for the first bytes of a letter whose rest is in the next token."""
_MOST_UNFINISHED = 8
"""A letter has at most four bytes; after this many tokens the replacement letter is real."""


class TextStream:
    """The text of a growing list of tokens.

    Text that may be the beginning of a stop string is held back until it is not.

    Args:
        tokenizer: Decodes the tokens.
        stops: Strings that end the text; they are not part of it.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str] = ()):
        self.tokenizer = tokenizer
        self.stops = tuple(stops)
        self.stopped = False
        self._tokens: list[int] = []
        self._shown = 0
        self._read = 0
        self._held = ""

    def add(self, token: int) -> str:
        """Add a token and return the text that became certain."""
        self._tokens.append(token)
        return self._released(self._new_text(final=False), final=False)

    def finish(self) -> str:
        """Return the text that was held back; call it once, when no token follows."""
        return "" if self.stopped else self._released(self._new_text(final=True), final=True)

    def _new_text(self, final: bool) -> str:
        # Decode with some tokens before the new ones: many tokenizers write a space depending on them.
        before = self._decode(self._tokens[self._shown : self._read])
        text = self._decode(self._tokens[self._shown :])
        pending = len(self._tokens) - self._read
        if text.endswith(_UNFINISHED) and not final and pending < _MOST_UNFINISHED:
            return ""
        self._shown = self._read
        self._read = len(self._tokens)
        return text[len(before) :]

    def _decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True) if tokens else ""

    def _released(self, text: str, final: bool) -> str:
        self._held += text
        ends = [index for stop in self.stops if (index := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            return self._release(min(ends), rest=False)
        keep = 0 if final else max((_overlap(self._held, stop) for stop in self.stops), default=0)
        return self._release(len(self._held) - keep, rest=True)

    def _release(self, length: int, rest: bool) -> str:
        text = self._held[:length]
        self._held = self._held[length:] if rest else ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` with which `stop` begins."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)


@dataclass(frozen=True)
class TokenChance:
    """A token and its log-probability.

    Attributes:
        token: The token.
        logprob: Logarithm of its probability, before temperature and top_p.
        top: The most likely tokens with theirs, best first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Draws the tokens of one text from its own stream, whatever else is in the batch.

    Args:
        temperature: 0 takes the most likely token.
        top_p: Draw from the smallest set of tokens with this probability.
        seed: Seed of the draws.
        choice: Number of the answer; every answer to a request has its own stream.
    """

    def __init__(self, temperature: float, top_p: float, seed: int, choice: int = 0):
        self.temperature = temperature
        self.top_p = top_p
        self._draws = generator(seed, f"answer {choice}")

    def next(self, logits: Float[Tensor, " vocabulary"]) -> int:
        """Return the next token."""
        if self.temperature == 0:
            return int(logits.argmax())
        chances = (logits.double() / self.temperature).softmax(dim=-1)
        chances, tokens = chances.sort(descending=True, stable=True)
        total = chances.cumsum(dim=-1)
        # the first token stays, and every other one whose predecessors have less than top_p
        count = max(1, int((total - chances < self.top_p).sum()))
        drawn = torch.rand((), generator=self._draws, dtype=torch.float64) * total[count - 1]
        return int(tokens[min(int(torch.searchsorted(total, drawn, right=True)), count - 1)])


def chance_of(logits: Float[Tensor, " vocabulary"], token: int, most: int) -> TokenChance:
    """Return the log-probability of a token, and the `most` most likely ones."""
    logprobs = logits.float().log_softmax(dim=-1)
    values, tokens = logprobs.topk(most)
    return TokenChance(
        token, float(logprobs[token]), tuple(zip(tokens.tolist(), values.tolist(), strict=True))
    )


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
