"""Ask an engine the questions of a compressed prompt's report."""

from pathlib import Path
from typing import Any, NamedTuple

from attangent._core.errors import AttangentError
from attangent._core.files import read_json, settings_of
from attangent._core.progress import Advance, no_progress
from attangent.compression.prompt import Reader
from attangent.compression.questions import Question
from attangent.compression.quiz import ANSWER_TOKENS, holds_words
from attangent.compression.result import read_notes
from attangent.serving.exports.engine_prefix import EnginePrefix
from attangent.serving.exports.engine_server import Engine

REPORT = "report.json"


class AnswersKept(NamedTuple):
    """How many of the facts that the full prompt knows an engine knows.

    Attributes:
        kept: Facts kept.
        asked: Facts asked for.
    """

    kept: int
    asked: int


def read_questions(folder: Path) -> list[Question]:
    """Return the questions of a report that the full prompt answers and no prompt does not.

    Raises:
        AttangentError: If the report is missing or does not have the questions as the model reads them.
    """
    answers = read_json(folder / REPORT).get("own")
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        raise AttangentError(f"{folder / REPORT} was not written by `attangent compress`")
    stored = [answer.get("asked") for answer in answers]
    if any(question is None or "begun" in question for question in stored):
        raise AttangentError(
            f"{folder / REPORT} is from an earlier version, whose questions were others; run "
            "`attangent compress` again"
        )
    return [settings_of(Question, question, str(folder / REPORT)) for question in stored]


def ask_engine(
    engine: Engine, tokenizer: Any, prefix: EnginePrefix, folder: Path, progress: Advance = no_progress
) -> AnswersKept:
    """Ask an engine that holds a prefix the questions of its report.

    An answer is right if the most likely text has the expected words. As in the report, a fact is kept if at
    least half of the questions that ask for it are answered right.

    Args:
        engine: The engine.
        tokenizer: The model's tokenizer.
        prefix: The prefix.
        folder: Folder that `attangent compress` wrote.
        progress: Called after every question.

    Returns:
        The answers kept.
    """
    reader = Reader(tuple(read_notes(folder)["roles"]))
    questions = read_questions(folder)
    replies: dict[int, list[bool]] = {}
    for question in questions:
        right = _is_right(engine, tokenizer, prefix.marker.ids, question, reader)
        replies.setdefault(question.fact, []).append(right)
        progress(1)
    kept = sum(2 * sum(right) >= len(right) for right in replies.values())
    return AnswersKept(kept, len(replies))


def _is_right(engine: Engine, tokenizer: Any, before: list[int], question: Question, reader: Reader) -> bool:
    asked = reader.question(tokenizer, question.text)
    text = engine.complete([*before, *asked.tolist()], ANSWER_TOKENS)
    return holds_words(text, question.expected)
