"""Read the SuperGLUE tasks of P1 Table 1 as labelled texts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent.tuning.data.records import read_records
from attangent.tuning.data.text import TextColumns, TextExample, TextTask, label_in, read_task

_COPA_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


def read_superglue(
    paths: Sequence[Path], *, layout: str | None = None, labels: Sequence[str] | None = None
) -> TextTask:
    """Read the examples of SuperGLUE files, or of plain tables, as one task.

    Args:
        paths: The files.
        layout: One of `LAYOUTS`; None recognises it by the keys of the first row.
        labels: Label names of the training data.
    """
    if layout is not None:
        check_choice("layout", layout, tuple(LAYOUTS))
    first = next(iter(read_records(paths[0])), {})
    return read_task(paths, labels=labels, parse=LAYOUTS[layout or layout_of(first)])


def layout_of(record: dict[str, Any]) -> str:
    """Return the layout that has these keys.

    Example:
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


def _boolq(record: dict[str, Any]) -> list[TextExample]:
    return [TextExample(_fields(record, "question", "passage"), label_in(record))]


def _entailment(record: dict[str, Any]) -> list[TextExample]:
    return [TextExample(_fields(record, "premise", "hypothesis"), label_in(record))]


def _copa(record: dict[str, Any]) -> list[TextExample]:
    premise, question, first, second = _fields(record, "premise", "question", "choice1", "choice2")
    features = (premise, _COPA_QUESTIONS.get(question, question), first, second)
    return [TextExample(features, label_in(record))]


def _multirc(record: dict[str, Any]) -> list[TextExample]:
    """One example per answer: question, answer and passage; the label is 1 if the answer is right."""
    passage = record.get("passage")
    if not isinstance(passage, dict) or not isinstance(passage.get("questions"), list):
        raise AttangentError("no passage with questions; this layout has them nested in `passage`")
    (text,) = _fields(passage, "text")
    rows = []
    for question in passage["questions"]:
        (asked,) = _fields(question, "question")
        for answer in question.get("answers", []):
            rows.append(TextExample((asked, *_fields(answer, "text"), text), label_in(answer)))
    return rows


def _columns(record: dict[str, Any]) -> list[TextExample]:
    return [TextExample(TextColumns().features(record), label_in(record))]


LAYOUTS: dict[str, Callable[[dict[str, Any]], list[TextExample]]] = {
    "boolq": _boolq,
    "cb": _entailment,
    "copa": _copa,
    "multirc": _multirc,
    "rte": _entailment,
    "columns": _columns,
}
