"""A quiz on a prompt: questions asked with the full prompt, with the compressed one and with none."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent._core.progress import Advance, no_progress
from attangent.attention import Prefix
from attangent.compression.capture import intercepted
from attangent.compression.prompt import tokens_of
from attangent.compression.prompt_cache import PromptCache, PromptForm
from attangent.compression.questions import Question

ANSWER_TOKENS = 24
_ASKED_AT_ONCE = 48
# An answer counts as kept if it is at least this many times as likely as with the full prompt.
_AS_LIKELY = 0.6


@dataclass(frozen=True)
class Answer:
    """One question answered with the full prompt, with the compressed one and with none.

    Attributes:
        question: The question.
        full: Answer with the full prompt.
        compressed: Answer with the compressed prompt.
        none: Answer without a prompt.
        expected: Words that a right answer contains, if they are known.
        chance: For an answer that was begun: how likely it continues as expected, relative to the full
            prompt.
        asked: The question as the model reads it, so that other engines can be asked the same.
    """

    question: str
    full: str
    compressed: str
    none: str
    expected: str | None = None
    chance: float | None = None
    asked: Question | None = None

    @property
    def brought(self) -> set[str]:
        """Return the words of the full prompt's answer that occur neither in the question nor without it."""
        return _words(self.full) - _words(self.question) - _words(self.none)

    def holds(self, answer: str) -> bool:
        """Return whether an answer has the expected words, or else half of those that the prompt brings."""
        if self.expected is not None:
            return holds_words(answer, self.expected)
        return not self.brought or 2 * len(self.brought & _words(answer)) >= len(self.brought)

    @property
    def lost(self) -> bool:
        """Return whether the full prompt answers and the compressed one does not."""
        if self.chance is not None:
            return self.chance < _AS_LIKELY
        return self.holds(self.full) and not self.holds(self.compressed)


class Reply(NamedTuple):
    """The model's reply to a question, whether it is right, and its likelihood if the answer was begun."""

    text: str
    right: bool
    chance: float = 0.0


@dataclass(frozen=True)
class Quiz:
    """Questions that the full prompt answers and no prompt does not.

    Attributes:
        questions: The questions.
        full: Answers with the full prompt.
        none: Answers without a prompt.
        chances: Likelihood with the full prompt of answers that were begun; 0 for others.
    """

    questions: tuple[Question, ...] = ()
    full: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()

    @classmethod
    def of(cls, questions: Sequence[Question], full: Sequence[Reply], none: Sequence[Reply]) -> "Quiz":
        """Keep the questions that are answered right with the full prompt only."""
        rows = [
            (question, with_prompt.text, without.text, with_prompt.chance)
            for question, with_prompt, without in zip(questions, full, none, strict=True)
            if with_prompt.right and not without.right
        ]
        return cls(*(tuple(column) for column in zip(*rows, strict=True))) if rows else cls()

    @classmethod
    def joined(cls, quizzes: "Sequence[Quiz]") -> "Quiz":
        """Concatenate several quizzes."""
        names = ("questions", "full", "none", "chances")
        return cls(*(tuple(item for quiz in quizzes for item in getattr(quiz, name)) for name in names))

    @classmethod
    def read(cls, notes: dict[str, Any]) -> "Quiz":
        """Return the quiz that `asdict` turned into JSON."""
        questions = tuple(Question(**question) for question in notes["questions"])
        return cls(questions, tuple(notes["full"]), tuple(notes["none"]), tuple(notes.get("chances", ())))

    def __len__(self) -> int:
        return len(self.questions)

    def answers(self, replies: Sequence[Reply]) -> tuple[Answer, ...]:
        """Compare the replies of a compressed prompt with the others."""
        chances = self.chances or (0.0,) * len(self)
        rows = zip(self.questions, self.full, replies, self.none, chances, strict=True)
        return tuple(
            Answer(q.shown, full, reply.text, none, q.expected, reply.chance / chance if q.begun else None, q)
            for q, full, reply, none, chance in rows
        )


def ask(
    model: Any,
    tokenizer: Any,
    questions: Sequence[Question],
    read: Callable[[str], Tensor],
    form: PromptForm,
    progress: Advance = no_progress,
) -> list[Reply]:
    """Ask questions in one form of the prompt.

    An answer that was begun is not written: only the likelihood of the expected continuation is computed.

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer.
        questions: The questions.
        read: Turns a question into tokens.
        form: The prompt: full, compressed or none.
        progress: Called with the number of questions just answered.
    """
    open_ = [question for question in questions if not question.begun]
    rows = [read(question.text) for question in open_]
    expected = [question.expected for question in open_]
    texts = answers_by(model, tokenizer, rows, form, ANSWER_TOKENS, progress, expected)
    replies = {
        question: Reply(text, holds_words(text, question.expected))
        for question, text in zip(open_, texts, strict=True)
    }
    begun = [question for question in questions if question.begun]
    turns = [begun_turn(tokenizer, question, read(question.text)) for question in begun]
    likely = likelihoods(model, turns, form, progress)
    for question, (chance, likeliest) in zip(begun, likely, strict=True):
        replies[question] = Reply(f"{question.rest.strip()} ({chance:.0%})", likeliest, chance)
    return [replies[question] for question in questions]


def begun_turn(tokenizer: Any, question: Question, asked: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens up to the beginning of the continuation, and those of the expected continuation."""
    begun = tokens_of(tokenizer, question.begun)
    complete = tokens_of(tokenizer, question.begun + question.rest)
    # The last token of the beginning may merge with what follows: cut at the first difference.
    same = (begun == complete[: len(begun)]).long().cumprod(dim=0).sum() if len(complete) >= len(begun) else 0
    cut = min(int(same), len(complete) - 1)
    return torch.cat([asked, complete[:cut]]), complete[cut:]


def answer_all(
    model: Any,
    tokenizer: Any,
    questions: Sequence[tuple[str, str | None]],
    read: Callable[[str], Tensor],
    cache: PromptCache,
    states: Mapping[str, Prefix],
    progress: Advance = no_progress,
) -> tuple[Answer, ...]:
    """Answer a user's questions (text, expected words or None) with all three forms of the prompt."""
    rows = [read(question) for question, _ in questions]
    full = answers_by(model, tokenizer, rows, PromptForm.full(cache))
    compressed = answers_by(model, tokenizer, rows, PromptForm.compressed(cache, states), progress=progress)
    none = answers_by(model, tokenizer, rows, PromptForm.none())
    answers = zip(questions, full, compressed, none, strict=True)
    return tuple(Answer(question, a, b, c, expected) for (question, expected), a, b, c in answers)


def answers_by(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tensor],
    form: PromptForm,
    tokens: int = ANSWER_TOKENS,
    progress: Advance = no_progress,
    expected: Sequence[str] | None = None,
) -> list[str]:
    """Return the most likely continuation of each row of ids in one form of the prompt.

    If `expected` has words per row, an answer ends as soon as it contains them.
    """
    answers = [""] * len(rows)
    for batch in _batches([len(row) for row in rows]):
        words = None if expected is None else [expected[index] for index in batch]
        texts = continuations(model, tokenizer, [rows[index] for index in batch], form, tokens, words)
        for index, text in zip(batch, texts, strict=True):
            answers[index] = text
        progress(len(batch))
    return answers


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return batches of rows of similar length, the shortest first."""
    # Similar lengths need little padding.
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    return [order[start : start + _ASKED_AT_ONCE] for start in range(0, len(order), _ASKED_AT_ONCE)]


class Likelihood(NamedTuple):
    """Probability of some words, and whether each of their tokens is the most likely one."""

    chance: float
    likeliest: bool


def likelihoods(
    model: Any, rows: Sequence[tuple[Tensor, Tensor]], form: PromptForm, progress: Advance = no_progress
) -> list[Likelihood]:
    """Return the likelihood of each continuation after its row of ids, in one form of the prompt."""
    likely: dict[int, Likelihood] = {}
    for batch in _batches([sum(map(len, row)) for row in rows]):
        likely |= dict(zip(batch, _likelihoods(model, [rows[index] for index in batch], form), strict=True))
        progress(len(batch))
    return [likely[index] for index in range(len(rows))]


def _likelihoods(model: Any, rows: Sequence[tuple[Tensor, Tensor]], form: PromptForm) -> list[Likelihood]:
    longest = max(len(continuation) for _, continuation in rows)
    ids, seen, positions = _padded([torch.cat(row) for row in rows], form.offset, model.device)
    with intercepted(model, form.handler), torch.no_grad():
        options: dict[str, Any] = {"use_cache": False, "logits_to_keep": longest + 1}
        logits = model(ids, attention_mask=seen, position_ids=positions, **options).logits
    likely = []
    for (_, continuation), row in zip(rows, logits, strict=True):
        # Rows are padded at their beginnings, so a continuation ends where its row ends.
        chances = row[-len(continuation) - 1 : -1].float().log_softmax(dim=-1).cpu()
        log_p = chances.gather(1, continuation.unsqueeze(1)).sum().item()
        likely.append(Likelihood(math.exp(log_p), bool((chances.argmax(dim=1) == continuation).all())))
    return likely


def continuations(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tensor],
    form: PromptForm,
    tokens: int,
    expected: Sequence[str] | None = None,
) -> list[str]:
    """Return the most likely `tokens` after each row of ids as text, up to its end or the expected words."""

    def is_answered(row: int, ids: Sequence[int]) -> bool:
        return expected is not None and holds_words(tokenizer.decode(ids), expected[row])

    with intercepted(model, form.handler), torch.no_grad():
        end = getattr(tokenizer, "eos_token_id", None)
        written = _likeliest(model, rows, form.offset, tokens, end, is_answered)
    return [tokenizer.decode(ids).strip() for ids in written]


def holds_words(text: str, words: str) -> bool:
    """Return whether a text contains these words, in any case."""
    return words.casefold() in text.casefold()


def _likeliest(
    model: Any,
    rows: Sequence[Tensor],
    offset: int,
    tokens: int,
    end: int | None,
    is_answered: Callable[[int, Sequence[int]], bool],
) -> list[list[int]]:
    """Write at most `tokens` after each row; rows that have ended leave the batch."""
    from transformers import DynamicCache

    cache = DynamicCache()
    ids, seen, positions = _padded(rows, offset, model.device)
    written = [list[int]() for _ in rows]
    going = list(range(len(rows)))
    options: dict[str, Any] = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
    for _ in range(tokens):
        out = model(ids, attention_mask=seen, position_ids=positions, **options)
        ids = out.logits[:, -1:].argmax(dim=-1)
        seen = F.pad(seen, (0, 1), value=1)
        positions = positions[:, -1:] + 1
        unfinished = []
        for index, (row, token) in enumerate(zip(going, ids[:, 0].tolist(), strict=True)):
            if token != end:
                written[row].append(token)
                if not is_answered(row, written[row]):
                    unfinished.append(index)
        if not unfinished:
            break
        # Finished rows leave the batch: answers end at very different lengths.
        if len(unfinished) < len(going):
            retained = torch.tensor(unfinished, device=ids.device)
            cache.batch_select_indices(retained)
            ids, seen, positions = (part[retained] for part in (ids, seen, positions))
            going = [going[index] for index in unfinished]
    return written


def _padded(rows: Sequence[Tensor], offset: int, device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Pad rows of different lengths at their beginnings: ids, which of them are real, positions (B, L)."""
    # Padding at the beginning keeps the last tokens aligned, which generation continues from.
    longest = max(len(row) for row in rows)
    ids = torch.stack([F.pad(row, (longest - len(row), 0)) for row in rows]).to(device)
    seen = torch.stack([torch.arange(longest) >= longest - len(row) for row in rows]).long().to(device)
    return ids, seen, offset + (seen.cumsum(dim=1) - 1).clamp(min=0)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
