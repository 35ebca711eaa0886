"""How much of a prompt's effect a compressed one kept: divergence, likelihood, agreement, answers."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.attention import Prefix
from attangent.compression.capture import (
    Handler,
    PromptCache,
    intercepted,
    run,
    whole_prompt,
    with_states,
)
from attangent.compression.text import Calibration

_AT_ONCE = 4
_ASKED_AT_ONCE = 16
ANSWER_TOKENS = 24


@dataclass(frozen=True)
class Fidelity:
    """Means over the tokens of text that the model wrote behind the whole prompt.

    divergence: KL(full || other) by name of the other, `compressed` or `none`, in nats a token;
    loss: minus the log-likelihood of the text, by name, `full` too;
    agreement: how often the likeliest next token is the same as with the full prompt.
    """

    divergence: dict[str, float]
    loss: dict[str, float]
    agreement: dict[str, float]

    @property
    def ratio(self) -> float:
        """KL(full || compressed) / KL(full || no prompt): 0 keeps everything, 1 nothing."""
        return self.divergence["compressed"] / max(self.divergence["none"], 1e-12)


@dataclass(frozen=True)
class Answer:
    """One question answered with the full prompt, with the compressed one and with none."""

    question: str
    full: str
    compressed: str
    none: str
    expected: str | None = None

    @property
    def told(self) -> set[str]:
        """The words that the full prompt brings in: in its answer, not in the question nor without it."""
        return _words(self.full) - _words(self.question) - _words(self.none)

    def holds(self, answer: str) -> bool:
        """Whether an answer has what was expected, or else most of what the full prompt brings in."""
        if self.expected is not None:
            return self.expected.casefold() in answer.casefold()
        return not self.told or 2 * len(self.told & _words(answer)) >= len(self.told)

    @property
    def lost(self) -> bool:
        """Whether the full prompt answers and the compressed one does not."""
        return self.holds(self.full) and not self.holds(self.compressed)


@dataclass(frozen=True)
class Report:
    """What compression kept and what it costs. Sizes are in tokens of a KV cache, times in seconds."""

    prompt_tokens: int
    size: int
    method: str
    fidelity: Fidelity
    seconds: dict[str, float]
    bytes_of_cache: int
    bytes_of_states: int
    answers: tuple[Answer, ...] = ()
    decode: dict[str, float] = field(default_factory=dict)
    """Seconds of one decoding step with the full prompt, the compressed one and none."""

    @property
    def lost(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.lost]

    @property
    def warnings(self) -> list[str]:
        found = []
        if self.fidelity.ratio > 0.5:
            found.append(
                f"only {1 - self.fidelity.ratio:.0%} of the prompt's effect was kept: "
                "try a larger size or distillation"
            )
        if self.lost:
            found.append(
                f"{len(self.lost)} of {len(self.answers)} answers were lost, the first to "
                f"{self.lost[0].question!r}: try a larger size or distillation"
            )
        return found

    def rows(self) -> list[tuple[str, str, str, str]]:
        """A table: what is measured, with the full prompt, the compressed one, none."""
        d, loss, agree = self.fidelity.divergence, self.fidelity.loss, self.fidelity.agreement
        rows = [
            ("tokens in front", str(self.prompt_tokens), str(self.size), "0"),
            ("KL from the full prompt", "0", f"{d['compressed']:.4f}", f"{d['none']:.4f}"),
            ("the same, relative", "0", f"{self.fidelity.ratio:.3f}", "1"),
            ("loss on its text", *(f"{loss[name]:.3f}" for name in ("full", "compressed", "none"))),
            ("same next token", "100%", f"{agree['compressed']:.1%}", f"{agree['none']:.1%}"),
            ("bytes", f"{self.bytes_of_cache:,}", f"{self.bytes_of_states:,}", "0"),
        ]
        if self.decode:
            times = (f"{1e3 * self.decode[name]:.1f} ms" for name in ("full", "compressed", "none"))
            rows.append(("one decoding step", *times))
        rows += [(answer.question, answer.full, answer.compressed, answer.none) for answer in self.answers]
        return rows

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "ratio": self.fidelity.ratio,
            "answers": [asdict(answer) | {"lost": answer.lost} for answer in self.answers],
            "warnings": self.warnings,
        }


def measure_fidelity(
    model: Any,
    cache: PromptCache,
    states: Mapping[str, Prefix],
    text: Calibration,
    told: Callable[[int], Any] = lambda sequences: None,
) -> Fidelity:
    """Compare the model behind the states and behind nothing with the model behind the whole prompt."""
    return compare_fidelity(model, cache, [states], text, told)[0]


def compare_fidelity(
    model: Any,
    cache: PromptCache,
    several: Sequence[Mapping[str, Prefix]],
    text: Calibration,
    told: Callable[[int], Any] = lambda sequences: None,
) -> list[Fidelity]:
    """`measure_fidelity` of several states of one prompt, for which the full prompt is asked only once."""
    sums = [_Sums() for _ in several]
    with torch.no_grad():
        for start in range(0, len(text), _AT_ONCE):
            ids, valid = (part[start : start + _AT_ONCE] for part in (text.ids, text.valid))
            full = _log_chances(model, ids, valid, cache.length, whole_prompt(cache))
            none = _log_chances(model, ids, valid, 0, None)
            for each, states in zip(sums, several, strict=True):
                said = _log_chances(model, ids, valid, cache.length, with_states(states))
                each.add({"full": full, "compressed": said, "none": none}, ids, valid)
            told(len(ids))
    return [each.means() for each in sums]


def _log_chances(model: Any, ids: Tensor, valid: Tensor, offset: int, handler: Handler | None) -> Tensor:
    """(T, vocabulary) over the valid tokens."""
    logits = run(model, ids, offset, handler).logits
    return logits[valid].float().log_softmax(dim=-1).cpu()


class _Sums:
    """Running sums over tokens, for each way to have the prompt."""

    def __init__(self) -> None:
        self.count = self.predicted = 0
        self.totals: dict[tuple[str, str], float] = {}

    def add(self, said: Mapping[str, Tensor], ids: Tensor, valid: Tensor) -> None:
        full = said["full"]
        following = ids.roll(-1, dims=1)[valid]
        real = (valid & valid.roll(-1, dims=1) & (torch.arange(ids.shape[1]) < ids.shape[1] - 1))[valid]
        self.count += len(full)
        self.predicted += int(real.sum())
        for name, other in said.items():
            loss = -other.gather(1, following[:, None])[real].sum()
            self._plus("loss", name, loss)
            if name != "full":
                self._plus("divergence", name, (full.exp() * (full - other)).sum())
                self._plus("agreement", name, (full.argmax(dim=1) == other.argmax(dim=1)).sum())

    def _plus(self, what: str, name: str, value: Tensor) -> None:
        self.totals[what, name] = self.totals.get((what, name), 0.0) + value.item()

    def means(self) -> Fidelity:
        def of(what: str, count: int) -> dict[str, float]:
            return {name: total / max(count, 1) for (w, name), total in self.totals.items() if w == what}

        return Fidelity(of("divergence", self.count), of("loss", self.predicted), of("agreement", self.count))


def answer_all(
    model: Any,
    tokenizer: Any,
    questions: Sequence[tuple[str, str | None]],
    tokens_of: Callable[[str], Tensor],
    cache: PromptCache,
    states: Mapping[str, Prefix],
    tokens: int = ANSWER_TOKENS,
    told: Callable[[int], Any] = lambda answered: None,
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
        told(len(some))
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
