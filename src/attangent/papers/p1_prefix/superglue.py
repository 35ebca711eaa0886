"""The layouts of labelled text files: SuperGLUE's, and plain columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attangent._core.errors import AttangentError
from attangent.tuning.data.columns import Columns, label_in

_COPA_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


@dataclass(frozen=True)
class Row:
    """One example as it stands in a file: text features and the name of the label, None where it has none."""

    features: tuple[str, ...]
    label: str | None


def layout_of(record: dict[str, Any]) -> str:
    """The layout that has these keys.

    >>> layout_of({"premise": "", "choice1": "", "choice2": "", "question": "cause", "label": 0})
    'copa'
    """
    keys = set(record)
    if isinstance(record.get("passage"), dict):
        return "multirc"
    if {"premise", "choice1", "choice2", "question"} <= keys:
        return "copa"
    if {"question", "passage"} <= keys:
        return "boolq"
    if {"premise", "hypothesis"} <= keys:
        return "cb"
    return "columns"


def _fields(record: dict[str, Any], *names: str) -> tuple[str, ...]:
    missing = [name for name in names if not isinstance(record.get(name), str)]
    if missing:
        raise AttangentError(f"no text in {', '.join(missing)}; this layout needs {', '.join(names)}")
    return tuple(record[name] for name in names)


def _boolq(record: dict[str, Any]) -> list[Row]:
    return [Row(_fields(record, "question", "passage"), label_in(record))]


def _entailment(record: dict[str, Any]) -> list[Row]:
    return [Row(_fields(record, "premise", "hypothesis"), label_in(record))]


def _copa(record: dict[str, Any]) -> list[Row]:
    premise, question, first, second = _fields(record, "premise", "question", "choice1", "choice2")
    return [Row((premise, _COPA_QUESTIONS.get(question, question), first, second), label_in(record))]


def _multirc(record: dict[str, Any]) -> list[Row]:
    """One row for each answer: question, answer and passage, labelled 1 where the answer is right."""
    passage = record.get("passage")
    if not isinstance(passage, dict) or not isinstance(passage.get("questions"), list):
        raise AttangentError("no passage with questions; this layout has them nested in `passage`")
    (text,) = _fields(passage, "text")
    rows = []
    for question in passage["questions"]:
        (asked,) = _fields(question, "question")
        for answer in question.get("answers", []):
            rows.append(Row((asked, *_fields(answer, "text"), text), label_in(answer)))
    return rows


def _columns(record: dict[str, Any]) -> list[Row]:
    return rows_in_columns(record, Columns())


def rows_in_columns(record: dict[str, Any], columns: Columns) -> list[Row]:
    """The row of a plain table."""
    return [Row(columns.features(record), label_in(record, columns.label))]


LAYOUTS: dict[str, Callable[[dict[str, Any]], list[Row]]] = {
    "boolq": _boolq,
    "cb": _entailment,
    "copa": _copa,
    "multirc": _multirc,
    "rte": _entailment,
    "columns": _columns,
}
