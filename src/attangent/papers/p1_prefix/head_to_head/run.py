"""Settings of a comparison of tuning methods, and the training and scoring of one entrant on one split."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import torch

from attangent._core.checks import check_choice, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.papers.p1_prefix.head_to_head.trunk import split_trunk
from attangent.tuning.data.images import EncodedImages, ImageTask, Pixels, read_images
from attangent.tuning.data.records import read_records
from attangent.tuning.data.text import TextColumns, TextExample, TextTask, label_in, read_task
from attangent.tuning.encoding import Collate, Encoded, Padding, encode_task, stack
from attangent.tuning.loading import (
    Pooling,
    load_model,
    load_tokenizer,
    model_limit,
    pad_with,
    preprocessor_of,
    resolved_pooling,
    use_mean_pooling,
)
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import Start, TrainingSettings
from attangent.tuning.running import run_method
from attangent.tuning.tasks import TaskKind
from attangent.tuning.training import score


@dataclass(frozen=True)
class Entrant:
    """A method under a label, with the learning rates it may choose from on validation rows."""

    label: str
    method: Method
    rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.label:
            raise AttangentError("an entrant has no label, expected a name for the table")
        if not self.rates:
            object.__setattr__(self, "rates", (self.method.rate,))
        if not all(rate > 0 for rate in self.rates):
            raise AttangentError(f"{self.label} has the rates {self.rates}, expected numbers above 0")

    def at(self, rate: float) -> Method:
        """Return the method at this learning rate."""
        return replace(self.method, learning_rate=rate)


@dataclass(frozen=True)
class TaskSplit:
    """A data set and the sizes of its splits; every seed draws another split.

    Attributes:
        name: Name of the task.
        files: One pool of training, validation and, without `eval_files`, test examples.
        train: Number of training examples.
        validation: Number of validation examples.
        test: Number of test examples.
        eval_files: Pool of the test examples.
        layout: SuperGLUE layout of the rows; None recognises it by the keys.
        max_tokens: Maximum number of tokens per text feature.
    """

    name: str
    files: tuple[Path, ...]
    train: int
    validation: int
    test: int
    eval_files: tuple[Path, ...] = ()
    layout: str | None = None
    max_tokens: int = 128

    def __post_init__(self) -> None:
        for path in (*self.files, *self.eval_files):
            if not path.exists():
                raise AttangentError(f"task {self.name}: there is no {path}")
        for name in ("train", "validation", "test", "max_tokens"):
            check_size(name, getattr(self, name))


@dataclass(frozen=True)
class MethodComparison:
    """Methods on tasks, each with several seeds.

    Attributes:
        model: Folder or Hub id of the model.
        entrants: The methods.
        trials: The tasks.
        training: Length and speed of every training.
        seeds: Number of seeds.
        top: Adapt only this many of an encoder's last layers; the layers below run once per split.
        first_seed: The first seed; another one draws splits that no earlier comparison has seen.
        start: Initial classifier, the same for every entrant.
        pooling: Input of the classifier, the same for every entrant.
    """

    model: str
    entrants: tuple[Entrant, ...]
    trials: tuple[TaskSplit, ...]
    training: TrainingSettings = field(default_factory=TrainingSettings)
    seeds: int = 5
    top: int | None = None
    first_seed: int = 0
    start: Start = "random"
    pooling: Pooling = "first"

    @property
    def drawn(self) -> range:
        """The seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def __post_init__(self) -> None:
        check_size("seeds", self.seeds)
        check_choice("pooling", self.pooling, get_args(Pooling))
        check_size("first_seed", self.first_seed, least=0)
        for name, labels in (
            ("entrants", [entrant.label for entrant in self.entrants]),
            ("tasks", [trial.name for trial in self.trials]),
        ):
            if not labels or len(set(labels)) < len(labels):
                raise AttangentError(f"the {name} are {labels}, expected at least one, and each only once")
        if self.top is not None and any(entrant.method.top is not None for entrant in self.entrants):
            raise AttangentError("top is set for the comparison and for an entrant, expected one of them")


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
