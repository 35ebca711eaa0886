"""Questions answered with the full prompt, with the compressed one and with none."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.attention import Prefix
from attangent.compression.capture import Handler, PromptCache, intercepted, whole_prompt, with_states

_ASKED_AT_ONCE = 16
ANSWER_TOKENS = 24


@dataclass(frozen=True)
class Answer:
    """One question answered with the full prompt, with the compressed one and with none."""

    question: str
    full: str
    compressed: str
    none: str
    expected: str | None = None

    @property
    def brought(self) -> set[str]:
        """The words that the full prompt brings in: in its answer, not in the question nor without it."""
        return _words(self.full) - _words(self.question) - _words(self.none)

    def holds(self, answer: str) -> bool:
        """Whether an answer has what was expected, or else most of what the full prompt brings in."""
        if self.expected is not None:
            return self.expected.casefold() in answer.casefold()
        return not self.brought or 2 * len(self.brought & _words(answer)) >= len(self.brought)

    @property
    def lost(self) -> bool:
        """Whether the full prompt answers and the compressed one does not."""
        return self.holds(self.full) and not self.holds(self.compressed)


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
    found = []
    for start in range(0, len(questions), _ASKED_AT_ONCE):
        some = questions[start : start + _ASKED_AT_ONCE]
        rows = [tokens_of(question) for question, _ in some]
        full = continuations(model, tokenizer, rows, cache.length, whole_prompt(cache), tokens)
        compressed = continuations(model, tokenizer, rows, cache.length, with_states(states), tokens)
        none = continuations(model, tokenizer, rows, 0, None, tokens)
        said = zip(some, full, compressed, none, strict=True)
        found += [Answer(question, a, b, c, expected) for (question, expected), a, b, c in said]
        progress(len(some))
    return tuple(found)


def continuations(
    model: Any, tokenizer: Any, rows: Sequence[Tensor], offset: int, handler: Handler | None, tokens: int
) -> list[str]:
    """The likeliest `tokens` behind each row of ids, as text, up to the end of the text."""
    with nullcontext() if handler is None else intercepted(model, handler), torch.no_grad():
        said = _likeliest(model, rows, offset, tokens)
    end = getattr(tokenizer, "eos_token_id", None)
    cut = [row[: row.index(end)] if end in row else row for row in said.tolist()]
    return [tokenizer.decode(row).strip() for row in cut]


def _likeliest(model: Any, rows: Sequence[Tensor], offset: int, tokens: int) -> Tensor:
    """(rows, tokens); rows of different lengths are padded at their beginnings."""
    from transformers import DynamicCache

    longest, cache = max(len(row) for row in rows), DynamicCache()
    given = torch.stack([F.pad(row, (longest - len(row), 0)) for row in rows]).to(model.device)
    seen = torch.stack([torch.arange(longest) >= longest - len(row) for row in rows]).long().to(model.device)
    positions = offset + (seen.cumsum(dim=1) - 1).clamp(min=0)
    said = []
    while len(said) < tokens:
        out = model(given, attention_mask=seen, past_key_values=cache, use_cache=True, position_ids=positions)
        given = out.logits[:, -1:].argmax(dim=-1)
        said.append(given)
        seen, positions = F.pad(seen, (0, 1), value=1), positions[:, -1:] + 1
    return torch.cat(said, dim=1)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
