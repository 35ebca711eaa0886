"""Train one entrant on one split and score it: the same split, classifier and epochs for each."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p1_prefix.head_to_head.settings import Entrant, MethodComparison, TaskSplit
from attangent.papers.p1_prefix.head_to_head.trunk import split_trunk
from attangent.tuning.data.images import EncodedImages, ImageTask, Pixels, read_images
from attangent.tuning.data.records import read_records
from attangent.tuning.data.text import TextColumns, TextExample, TextTask, label_in, read_task
from attangent.tuning.encoding import Collate, Encoded, Padding, encode_task, stack
from attangent.tuning.loading import (
    load_model,
    load_tokenizer,
    model_limit,
    pad_with,
    preprocessor_of,
    resolved_pooling,
    use_mean_pooling,
)
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import Start, TrainingSettings
from attangent.tuning.running import run_method
from attangent.tuning.tasks import TaskKind
from attangent.tuning.training import score

Run = dict[str, Any]


@dataclass(frozen=True)
class PreparedTrial:
    """A model and the rows of one split, ready for any entrant."""

    model: Any
    kind: TaskKind
    collate: Collate
    train: list[Encoded]
    validation: list[Encoded]
    test: list[Encoded]


def prepare_trial(comparison: MethodComparison, trial: TaskSplit, seed: int) -> PreparedTrial:
    """Read, split and encode the task; run the layers below the top ones if only those train."""
    parts = split_task(trial, seed)
    kind: TaskKind = "image-classification" if isinstance(parts[0], ImageTask) else "classification"
    model = load_model(comparison.model, kind, parts[0].labels, seed)
    if kind == "classification" and resolved_pooling(comparison.pooling, comparison.model) != "first":
        use_mean_pooling(model)
    rows, collate = _encoded(comparison.model, model, parts, trial.max_tokens)
    if comparison.top is not None:
        trunk, model = split_trunk(model, comparison.top)
        rows = [trunk.encode(part, collate) for part in rows]
    return PreparedTrial(model, kind, collate, *rows)


def one_run(
    task: str,
    prepared: PreparedTrial,
    entrant: Entrant,
    rate: float,
    training: TrainingSettings,
    seed: int,
    start: Start = "random",
) -> Run:
    """Train the entrant at this rate and score it on the validation and test rows."""
    model = copy.deepcopy(prepared.model)
    data = PreparedTask(model, prepared.kind, prepared.train, prepared.collate)
    seeded = replace(training, seed=seed, checkpoint_steps=0)
    with tempfile.TemporaryDirectory() as folder:
        result = run_method(data, entrant.at(rate), seeded, start, Path(folder))
        scores = {
            "validation": score(result.trainer, prepared.validation, prepared.kind),
            "test": score(result.trainer, prepared.test, prepared.kind),
        }
    return {"task": task, "entrant": entrant.label, "seed": seed, **scores, **result.metrics, "rate": rate}


def split_task(trial: TaskSplit, seed: int) -> tuple[Any, Any, Any]:
    """Draw disjoint training, validation and test examples from the seed."""
    pool = _read(trial, trial.files)
    order = torch.randperm(len(pool), generator=generator(seed, "split")).tolist()
    needed = trial.train + trial.validation + (0 if trial.eval_files else trial.test)
    if needed > len(pool):
        raise AttangentError(
            f"task {trial.name} has {len(pool)} examples, {needed} were requested; request fewer."
        )
    rest = order[trial.train :]
    train = pool.take(order[: trial.train])
    validation = pool.take(rest[: trial.validation])
    if not trial.eval_files:
        return train, validation, pool.take(rest[trial.validation :][: trial.test])
    held = _read(trial, trial.eval_files, pool.labels)
    chosen = torch.randperm(len(held), generator=generator(seed, "test split")).tolist()[: trial.test]
    return train, validation, held.take(chosen)


def _read(trial: TaskSplit, files: tuple[Path, ...], labels: tuple[str, ...] | None = None) -> Any:
    if all(path.is_dir() for path in files):
        parts = [read_images(path, labels=labels) for path in files]
        images = sum((part.files for part in parts), ())
        return ImageTask(images, sum((part.targets for part in parts), ()), parts[0].labels)
    return read_superglue(files, layout=trial.layout, labels=labels)


def _encoded(name: str, model: Any, parts: Any, max_tokens: int) -> tuple[list[Any], Collate]:
    if isinstance(parts[0], TextTask):
        tokenizer = load_tokenizer(name)
        pad_with(model, tokenizer)
        rows = [encode_task(part, tokenizer, max_tokens, model_limit(model)) for part in parts]
        return rows, Padding(tokenizer.pad_token_id)
    pixels = Pixels.of(model.config, preprocessor_of(name))
    images = [EncodedImages(part, pixels) for part in parts]
    return [[part[i] for i in range(len(part))] for part in images], stack


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
