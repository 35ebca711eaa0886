"""Questions answered with the full prompt, with the compressed one and with none."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.attention import Prefix
from attangent.compression.capture import Handler, PromptCache, intercepted, whole_prompt, with_states

_ASKED_AT_ONCE = 48
_AS_LIKELY = 0.6
"""Words are kept that are at least this part as likely as behind the full prompt."""
ANSWER_TOKENS = 24


@dataclass(frozen=True)
class Answer:
    """One question answered with the full prompt, with the compressed one and with none."""

    question: str
    full: str
    compressed: str
    none: str
    expected: str | None = None
    chance: float | None = None
    """Where the answer was begun: how likely it goes on as expected, in parts of the full prompt's chance."""

    @property
    def brought(self) -> set[str]:
        """The words that the full prompt brings in: in its answer, not in the question nor without it."""
        return _words(self.full) - _words(self.question) - _words(self.none)

    def holds(self, answer: str) -> bool:
        """Whether an answer has what was expected, or else most of what the full prompt brings in."""
        if self.expected is not None:
            return holds_words(answer, self.expected)
        return not self.brought or 2 * len(self.brought & _words(answer)) >= len(self.brought)

    @property
    def lost(self) -> bool:
        """Whether the full prompt answers and the compressed one does not."""
        if self.chance is not None:
            return self.chance < _AS_LIKELY
        return self.holds(self.full) and not self.holds(self.compressed)


class Way(NamedTuple):
    """One way to have the prompt: the position behind it, and who answers the attention (None: the model)."""

    offset: int
    handler: Handler | None

    @classmethod
    def full(cls, cache: PromptCache) -> "Way":
        return cls(cache.length, whole_prompt(cache))

    @classmethod
    def compressed(cls, cache: PromptCache, states: Mapping[str, Prefix]) -> "Way":
        return cls(cache.length, with_states(states))

    @classmethod
    def none(cls) -> "Way":
        return cls(0, None)


def answer_all(
    model: Any,
    tokenizer: Any,
    questions: Sequence[tuple[str, str | None]],
    tokens_of: Callable[[str], Tensor],
    cache: PromptCache,
    states: Mapping[str, Prefix],
    tokens: int = ANSWER_TOKENS,
    progress: Callable[[int], Any] = lambda answered: None,
) -> tuple[Answer, ...]:
    """Answers to questions (text, expected words or None) by the likeliest tokens, three ways."""
    rows = [tokens_of(question) for question, _ in questions]
    full = answers_by(model, tokenizer, rows, Way.full(cache), tokens)
    compressed = answers_by(model, tokenizer, rows, Way.compressed(cache, states), tokens, progress)
    none = answers_by(model, tokenizer, rows, Way.none(), tokens)
    said = zip(questions, full, compressed, none, strict=True)
    return tuple(Answer(question, a, b, c, expected) for (question, expected), a, b, c in said)


def answers_by(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tensor],
    way: Way,
    tokens: int = ANSWER_TOKENS,
    progress: Callable[[int], Any] = lambda answered: None,
    expected: Sequence[str] | None = None,
) -> list[str]:
    """What the model says behind each row of ids in one way to have the prompt.

    expected: words for each row; an answer that has them is not written further.
    """
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    said = [""] * len(rows)
    for start in range(0, len(order), _ASKED_AT_ONCE):
        places = order[start : start + _ASKED_AT_ONCE]
        words = None if expected is None else [expected[place] for place in places]
        found = continuations(model, tokenizer, [rows[place] for place in places], *way, tokens, words)
        for place, text in zip(places, found, strict=True):
            said[place] = text
        progress(len(places))
    return said


class Likelihood(NamedTuple):
    """How likely some words are, and whether each of their tokens is the likeliest."""

    chance: float
    likeliest: bool


def likelihoods(
    model: Any,
    rows: Sequence[tuple[Tensor, Tensor]],
    way: Way,
    progress: Callable[[int], Any] = lambda done: None,
) -> list[Likelihood]:
    """Of rows of ids and what is said behind them: how likely that is in one way to have the prompt."""
    order = sorted(range(len(rows)), key=lambda place: sum(map(len, rows[place])))
    found: list[Any] = [None] * len(rows)
    for start in range(0, len(order), _ASKED_AT_ONCE):
        places = order[start : start + _ASKED_AT_ONCE]
        for place, one in zip(
            places, _likelihoods(model, [rows[place] for place in places], way), strict=True
        ):
            found[place] = one
        progress(len(places))
    return found


def _likelihoods(model: Any, rows: Sequence[tuple[Tensor, Tensor]], way: Way) -> list[Likelihood]:
    longest = max(len(said) for _, said in rows)
    given, seen, positions = _padded([torch.cat(row) for row in rows], way.offset, model.device)
    with nullcontext() if way.handler is None else intercepted(model, way.handler), torch.no_grad():
        options: dict[str, Any] = {"use_cache": False, "logits_to_keep": longest + 1}
        logits = model(given, attention_mask=seen, position_ids=positions, **options).logits
    found = []
    for (_, said), own in zip(rows, logits, strict=True):
        chances = own[-len(said) - 1 : -1].float().log_softmax(dim=-1).cpu()
        log_p = chances.gather(1, said.unsqueeze(1)).sum().item()
        found.append(Likelihood(math.exp(log_p), bool((chances.argmax(dim=1) == said).all())))
    return found


def continuations(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tensor],
    offset: int,
    handler: Handler | None,
    tokens: int,
    expected: Sequence[str] | None = None,
) -> list[str]:
    """The likeliest `tokens` behind each row of ids, as text, up to the end of the text or of what is
    expected."""

    def answered(row: int, said: Sequence[int]) -> bool:
        return expected is not None and holds_words(tokenizer.decode(said), expected[row])

    with nullcontext() if handler is None else intercepted(model, handler), torch.no_grad():
        end = getattr(tokenizer, "eos_token_id", None)
        said = _likeliest(model, rows, offset, tokens, end, answered)
    return [tokenizer.decode(row).strip() for row in said]


def holds_words(text: str, words: str) -> bool:
    """Whether a text has these words, whatever their case."""
    return words.casefold() in text.casefold()


def _likeliest(
    model: Any,
    rows: Sequence[Tensor],
    offset: int,
    tokens: int,
    end: int | None,
    answered: Callable[[int, Sequence[int]], bool],
) -> list[list[int]]:
    """At most `tokens` for each row: up to the token `end`, or until the row is `answered`.

    Rows of different lengths are padded at their beginnings; rows that have ended are no longer computed.
    """
    from transformers import DynamicCache

    cache = DynamicCache()
    given, seen, positions = _padded(rows, offset, model.device)
    said, going = [list[int]() for _ in rows], list(range(len(rows)))
    options: dict[str, Any] = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
    for _ in range(tokens):
        out = model(given, attention_mask=seen, position_ids=positions, **options)
        given = out.logits[:, -1:].argmax(dim=-1)
        seen, positions = F.pad(seen, (0, 1), value=1), positions[:, -1:] + 1
        open_ = []
        for place, (row, token) in enumerate(zip(going, given[:, 0].tolist(), strict=True)):
            if token != end:
                said[row].append(token)
                if not answered(row, said[row]):
                    open_.append(place)
        if not open_:
            break
        if len(open_) < len(going):
            kept = torch.tensor(open_, device=given.device)
            cache.batch_select_indices(kept)
            given, seen, positions = (part[kept] for part in (given, seen, positions))
            going = [going[place] for place in open_]
    return said


def _padded(rows: Sequence[Tensor], offset: int, device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of different lengths, padded at their beginnings: ids, which are real, and positions (B, L)."""
    longest = max(len(row) for row in rows)
    given = torch.stack([F.pad(row, (longest - len(row), 0)) for row in rows]).to(device)
    seen = torch.stack([torch.arange(longest) >= longest - len(row) for row in rows]).long().to(device)
    return given, seen, offset + (seen.cumsum(dim=1) - 1).clamp(min=0)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
