"""A quiz on a prompt: questions asked with the full prompt, with the compressed one and with none."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent._core.progress import Advance, no_progress
from attangent.attention import Prefix
from attangent.compression.capture import intercepted
from attangent.compression.matching import holds_words
from attangent.compression.prompt_cache import PromptCache, PromptForm
from attangent.compression.questions import Question

ANSWER_TOKENS = 24
# Tokens of an answer in the quiz, whose expected words are few.
_QUIZ_TOKENS = 16
_ASKED_AT_ONCE = 48
# A sentence ends an answer once it has this many words; shorter ones are an opening such as "Yes."
_SENTENCE_WORDS = 3
# Fewer facts than this say little.
_FEW = 10


@dataclass(frozen=True)
class Answer:
    """One question answered with the full prompt, with the compressed one and with none.

    Attributes:
        question: The question.
        full: Answer with the full prompt.
        compressed: Answer with the compressed prompt.
        none: Answer without a prompt.
        expected: Words that a right answer contains, if they are known.
        fact: Number of the fact that is asked for; several questions may ask for one.
        part: Label of the part of the prompt that has the fact.
        asked: The question as the model reads it, so that other engines can be asked the same.
    """

    question: str
    full: str
    compressed: str
    none: str
    expected: str | None = None
    fact: int = 0
    part: str = ""
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
        return self.holds(self.full) and not self.holds(self.compressed)


def facts_kept(answers: "Sequence[Answer]") -> dict[int, bool]:
    """Return whether each fact is kept: every question that asks for it is still answered."""
    kept: dict[int, list[bool]] = {}
    for answer in answers:
        kept.setdefault(answer.fact, []).append(not answer.lost)
    return {fact: all(replies) for fact, replies in kept.items()}


def kept_interval(kept: int, asked: int) -> str:
    """Return Wilson's 95 % interval of the share kept, as words."""
    from scipy.stats import binomtest

    bounds = binomtest(kept, asked).proportion_ci(method="wilson")
    return f"between {bounds.low:.0%} and {bounds.high:.0%} of all such facts"


def rough_share(asked: int, candidates: int) -> str:
    """Return why the share kept is rough, if it is: how many of the candidate facts count."""
    if not 0 < asked < _FEW:
        return ""
    count = "1 fact counts" if asked == 1 else f"{asked} facts count"
    reason = (
        f" (the model answers {asked} of {candidates} questions with the full prompt and not without it; "
        "a larger model answers more)"
    )
    return (
        f"only {count}{reason if candidates > asked else ''}, so the share kept is rough; add your own "
        "questions with --ask, with the words of their answers"
    )


class Reply(NamedTuple):
    """The model's reply to a question, and whether it is right."""

    text: str
    right: bool


@dataclass(frozen=True)
class Quiz:
    """Questions that the full prompt answers and no prompt does not.

    Attributes:
        questions: The questions.
        full: Answers with the full prompt.
        none: Answers without a prompt.
        candidates: Facts that were asked about, answered or not.
    """

    questions: tuple[Question, ...] = ()
    full: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    candidates: int = 0

    @classmethod
    def of(cls, questions: Sequence[Question], full: Sequence[Reply], none: Sequence[Reply]) -> "Quiz":
        """Keep the questions that are answered right with the full prompt only."""
        rows = [
            (question, with_prompt.text, without.text)
            for question, with_prompt, without in zip(questions, full, none, strict=True)
            if with_prompt.right and not without.right
        ]
        if not rows:
            return cls()
        useful, with_prompts, without_prompts = zip(*rows, strict=True)
        return cls(useful, with_prompts, without_prompts)

    @classmethod
    def joined(cls, quizzes: "Sequence[Quiz]") -> "Quiz":
        """Concatenate several quizzes; facts are numbered through."""
        questions: list[Question] = []
        for quiz in quizzes:
            first = 1 + max((question.fact for question in questions), default=-1)
            questions += [replace(question, fact=first + question.fact) for question in quiz.questions]
        full = [text for quiz in quizzes for text in quiz.full]
        none = [text for quiz in quizzes for text in quiz.none]
        return cls(tuple(questions), tuple(full), tuple(none), sum(quiz.candidates for quiz in quizzes))

    @classmethod
    def read(cls, notes: dict[str, Any]) -> "Quiz":
        """Return the quiz that `asdict` turned into JSON."""
        questions = tuple(Question(**question) for question in notes["questions"])
        # Runs begun before version 0.1 counted candidates have none stored.
        return cls(questions, tuple(notes["full"]), tuple(notes["none"]), notes.get("candidates", 0))

    @property
    def facts(self) -> int:
        """Return the number of facts."""
        return len({question.fact for question in self.questions})

    def __len__(self) -> int:
        return len(self.questions)

    def answers(self, replies: Sequence[Reply]) -> tuple[Answer, ...]:
        """Compare the replies of a compressed prompt with the others."""
        rows = zip(self.questions, self.full, replies, self.none, strict=True)
        return tuple(
            Answer(q.text.strip(), full, reply.text, none, q.expected, q.fact, q.part, q)
            for q, full, reply, none in rows
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

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer.
        questions: The questions.
        read: Turns a question into tokens.
        form: The prompt: full, compressed or none.
        progress: Called with the number of questions just answered.
    """
    rows = [read(question.text) for question in questions]
    expected = [question.expected for question in questions]
    texts = answers_by(model, tokenizer, rows, form, _QUIZ_TOKENS, progress, expected)
    pairs = zip(texts, expected, strict=True)
    return [Reply(text, holds_words(text, words)) for text, words in pairs]


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
    """Return the most likely answer to each row of ids in one form of the prompt.

    An answer ends after its first sentence of some length. If `expected` has words per row, it also ends as
    soon as it contains them.
    """
    answers = [""] * len(rows)
    for batch in _batches([len(row) for row in rows]):

        def is_answered(row: int, text: str, batch: Sequence[int] = batch) -> bool:
            if is_finished(text):
                return True
            # The next token may change a number ("3", then "3.2"): wait for a blank after the words.
            return expected is not None and holds_words(
                text.rstrip().rpartition(" ")[0], expected[batch[row]]
            )

        texts = _texts(model, tokenizer, [rows[index] for index in batch], form, tokens, is_answered)
        for index, text in zip(batch, texts, strict=True):
            answers[index] = text
        progress(len(batch))
    return answers


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return batches of rows of similar length, the shortest first."""
    # Similar lengths need little padding.
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    return [order[start : start + _ASKED_AT_ONCE] for start in range(0, len(order), _ASKED_AT_ONCE)]


def continuations(
    model: Any, tokenizer: Any, rows: Sequence[Tensor], form: PromptForm, tokens: int
) -> list[str]:
    """Return the most likely `tokens` after each row of ids as text, up to the end of the text."""
    return _texts(model, tokenizer, rows, form, tokens, lambda row, text: False)


def is_finished(text: str) -> bool:
    """Return whether a text has a complete first sentence and more text after it."""
    match = re.match(r"\s*(.*?)(?:\n|[.!?](?=\s))", text, re.DOTALL)
    return match is not None and len(match[1].split()) >= _SENTENCE_WORDS


def _texts(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tensor],
    form: PromptForm,
    tokens: int,
    is_answered: Callable[[int, str], bool],
) -> list[str]:
    def ends(row: int, ids: Sequence[int]) -> bool:
        return is_answered(row, tokenizer.decode(ids))

    with intercepted(model, form.handler), torch.no_grad():
        end = getattr(tokenizer, "eos_token_id", None)
        written = _likeliest(model, rows, form.offset, tokens, end, ends)
    return [tokenizer.decode(ids).strip() for ids in written]


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
