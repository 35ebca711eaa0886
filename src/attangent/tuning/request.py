"""The request of a tuning run, from the command to the result."""

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from attangent._core.checks import check_choice, check_not_negative, check_positive, check_size
from attangent._core.deprecation import moved_names
from attangent._core.errors import AttangentError
from attangent.tuning.data.columns import TextColumns
from attangent.tuning.data.records import SUFFIXES
from attangent.tuning.loading import Pooling, Quantised
from attangent.tuning.methods import DEFAULT, Method, default_settings
from attangent.tuning.tasks import TaskKind

Start = Literal["closed-form", "random"]
Task = Literal["classification", "regression", "causal-lm"]
_IGNORED_BY_KIND: dict[str, tuple[str, ...]] = {
    "classification": ("plain",),  # there are no prompts
    "regression": ("plain", "class_weights"),  # there are no classes
    "causal-lm": ("pooling", "start", "head_rate", "class_weights"),  # there is no classifier
    "image-classification": ("plain", "pooling", "by_length"),  # there are no tokens
}


@dataclass(frozen=True)
class TrainingSettings:
    """Length and speed of a training run; the same for every method but the learning rate.

    Args:
        epochs: Passes over the training data.
        batch: Examples per step and process.
        accumulate: Steps per optimiser step.
        head_rate: Learning rate of the classifier; None is that of the method. A classifier that starts in
            closed form uses a fifth of it.
        weight_decay: Weight decay of AdamW.
        warmup: Fraction of the steps over which the learning rate rises.
        bf16: Train in mixed bfloat16 precision.
        by_length: Put examples of similar length into one batch, which saves padding.
        checkpoint_steps: Steps between checkpoints; 0 writes one about every minute, or ten per run of
            several processes.
        seed: Seed of all random draws.

    Raises:
        AttangentError: If a value is out of range.

    Example:
        >>> TrainingSettings(epochs=2).batch
        16
    """

    epochs: float = 4.0
    batch: int = 16
    accumulate: int = 1
    head_rate: float | None = 5e-3
    weight_decay: float = 0.0
    warmup: float = 0.1
    bf16: bool = False
    by_length: bool = False
    checkpoint_steps: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_size("batch", self.batch)
        check_size("accumulate", self.accumulate)
        check_size("checkpoint_steps", self.checkpoint_steps, least=0)
        check_positive("epochs", self.epochs)
        if self.head_rate is not None:
            check_positive("head_rate", self.head_rate)
        check_not_negative("weight_decay", self.weight_decay)
        if not 0 <= self.warmup < 1:
            raise AttangentError(f"warmup is {self.warmup}, expected a fraction of at least 0 and below 1")


@dataclass(frozen=True)
class TuningRequest:
    """A model, its data, the method and the training.

    Args:
        model: A folder or a Hub id.
        train: A file of rows, or a folder with one subfolder of images per class.
        evaluate: The same, to score on; None holds out a fifth of the training rows.
        keep_holdout: Never train on the rows that were held out. By default the saved model is trained on
            all rows after the held-out ones are scored.
        plain: For causal-lm: use prompts without the chat template.
        task: `classification`, `regression` (the label column holds numbers) or `causal-lm`. Folders of
            images are always classified.
        max_tokens: Maximum number of tokens: per text feature, which is truncated, or for causal-lm per
            row, beyond which a row is an error.
        method: The method; LoRA by default.
        training: Length and speed of the training.
        columns: Columns of the texts and the label; None finds them.
        pooling: Input of the classifier: the `first` token, the `mean`, the `normalised` mean, or what the
            model `declared`: the normalised mean for sentence-transformers, else the first token.
        class_weights: Give every class the same weight in the loss.
        start: Initial classifier. `closed-form` fits it to the frozen model's features, with a strong penalty
            that leaves an error to learn from unless the classifier is already confident; `random` draws it.
        quantised: `int8` holds the frozen weights in 8 bits (needs torchao).

    Raises:
        AttangentError: If a file does not exist or two settings contradict each other.

    Example:
        >>> TuningRequest("bert-base-uncased", Path("missing.csv"))
        Traceback (most recent call last):
        attangent._core.errors.AttangentError: there is no missing.csv; ...
    """

    model: str
    train: Path
    evaluate: Path | None = None
    task: Task = "classification"
    max_tokens: int = 128
    method: Method = DEFAULT
    training: TrainingSettings = field(default_factory=TrainingSettings)
    columns: TextColumns | None = None
    pooling: Pooling = "declared"
    class_weights: bool = False
    start: Start = "closed-form"
    quantised: Quantised | None = None
    keep_holdout: bool = False
    plain: bool = False

    def __post_init__(self) -> None:
        if self.method is DEFAULT:
            object.__setattr__(self, "method", Method.from_dict(default_settings(self.kind)))
        check_choice("task", self.task, get_args(Task))
        check_size("max_tokens", self.max_tokens)
        check_choice("pooling", self.pooling, get_args(Pooling))
        check_choice("start", self.start, get_args(Start))
        if self.quantised is not None:
            check_choice("quantised", self.quantised, get_args(Quantised))
        if self.quantised is not None and self.method.technique.folder == "model":
            raise AttangentError(
                f"quantised does not work with {self.method.name}, which saves the model itself; choose a "
                "method that adds to it, such as ntk or lora."
            )
        self._check_files()
        self._check_effects()
        if self.keep_holdout and self.evaluate is not None:
            raise AttangentError("keep_holdout is set, but evaluate names other rows; leave one of them out.")

    def _check_effects(self) -> None:
        """Raise if the task or the method would ignore a setting."""
        changed = {
            "pooling": self.pooling != "declared",
            "start": self.start != "closed-form",
            "head_rate": self.training.head_rate != TrainingSettings.head_rate,
            "by_length": self.training.by_length,
            "class_weights": self.class_weights,
            "plain": self.plain,
        }
        ignored = _IGNORED_BY_KIND[self.kind]
        reason = self.kind
        if not self.method.technique.trains and changed["start"]:
            ignored = ("start",)
            reason = f"the method {self.method.name}, which is the classifier in closed form"
        for name in ignored:
            if changed[name]:
                raise AttangentError(f"{name} has no effect on {reason}; leave it out.")

    def _check_files(self) -> None:
        for path in self.files:
            if not path.exists():
                raise AttangentError(
                    f"there is no {path}; use a file ({', '.join(SUFFIXES)}) or a folder of images."
                )
        if self.evaluate is not None and self.train.is_dir() != self.evaluate.is_dir():
            raise AttangentError(
                f"{self.train} and {self.evaluate} are a folder and a file, expected two of one kind"
            )

    @property
    def retrains(self) -> bool:
        """Whether the saved model is trained on all rows after the scores are known."""
        return self.evaluate is None and not self.keep_holdout

    @property
    def kind(self) -> TaskKind:
        """The kind of task: `task`, or image-classification if `train` is a folder."""
        return "image-classification" if self.train.is_dir() else self.task

    @property
    def files(self) -> list[Path]:
        """The data: `train`, and `evaluate` if set."""
        return [self.train] if self.evaluate is None else [self.train, self.evaluate]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values with digests of the data, as settings.json holds them."""
        values = asdict(self)
        values |= {
            "train": str(self.train),
            "evaluate": None if self.evaluate is None else str(self.evaluate),
            # `layout`, `beside` and the last two of the recipe are settings of version 0.2 at their defaults
            "layout": None,
            "beside": None,
            "recipe": {"start": values.pop("start"), "validation": "none", "search": False},
            "columns": None if self.columns is None else [*self.columns.text, self.columns.label],
            "digests": [_digest(path) for path in self.files],
        }
        values["method"] |= {"ntk": self.method.ntk.as_dict(), "learning_rate": self.method.rate}
        values["method"]["peft"] = dict(self.method.peft)
        return values


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and sizes of the files in a folder."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(
        (str(file.relative_to(path)), file.stat().st_size) for file in path.rglob("*") if file.is_file()
    )
    return hashlib.sha256(repr(files).encode()).hexdigest()


def differences(written: dict[str, Any], current: dict[str, Any], prefix: str = "") -> list[str]:
    """List the settings in a run's file that differ, as `name: written, now current`.

    Settings that the file lacks are ignored: a later version added them.
    """
    changes = []
    for name in written:
        if name not in current:
            changes.append(f"{prefix}{name}: {written[name]!r}, now unknown")
        elif isinstance(written[name], dict) and isinstance(current[name], dict):
            changes += differences(written[name], current[name], f"{prefix}{name}.")
        elif name == "digests" and written[name] != current[name]:
            changes.append("the rows have changed")
        elif written[name] != current[name]:
            changes.append(f"{prefix}{name}: {written[name]!r}, now {current[name]!r}")
    return changes


__getattr__ = moved_names(__name__, "0.2", {"Tuning": "attangent.tuning:TuningRequest"})
