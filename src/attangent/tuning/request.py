"""What a run of `tune` was asked for."""

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attangent._core.checks import check_choice, check_size
from attangent._core.errors import AttangentError
from attangent.adapters.files.format import WEIGHTS
from attangent.tuning.data.columns import Columns
from attangent.tuning.data.records import KINDS
from attangent.tuning.frozen_adapter import check_beside
from attangent.tuning.methods import DEFAULT, Method, default_for
from attangent.tuning.pooling import Pooling, check_pooling
from attangent.tuning.precision import check_quantised
from attangent.tuning.recipe import Recipe
from attangent.tuning.tasks import TaskKind
from attangent.tuning.training import Training

_GIVE = f"give a file ({', '.join(KINDS)}), or a folder of images"


@dataclass(frozen=True)
class Tuning:
    """A model, its data, the method and the training.

    train, evaluate: files of rows, or folders with one folder of images for each class. Without `evaluate` a
        fifth of the training rows is kept to score on.
    task: `classification`, `regression` (the label column holds numbers) or `causal-lm`; images are always
        classified.
    max_tokens: of each text feature (classification, cut there) or of the whole (causal-lm, more is refused).
    method: by default what `attangent.tuning.methods.defaults` names: a state, and LoRA for images.
    columns: the columns that hold the texts and the label; None finds them.
    pooling: what the classifier reads; see `attangent.tuning.pooling`.
    recipe: how the classifier starts and what is chosen on rows kept apart.
    class_weights: every class counts the same in the loss, however many rows it has.
    beside: the folder of a peft adapter that acts, frozen, while a state is trained (method ntk).
    quantised: `int8` holds the weights of the frozen base in 8 bits (torchao); None leaves them as they are.
    """

    model: str
    train: Path
    evaluate: Path | None = None
    task: TaskKind = "classification"
    layout: str | None = None
    max_tokens: int = 128
    method: Method = DEFAULT
    training: Training = field(default_factory=Training)
    columns: Columns | None = None
    pooling: Pooling = "declared"
    class_weights: bool = False
    recipe: Recipe = field(default_factory=Recipe)
    quantised: str | None = None
    beside: Path | None = None

    def __post_init__(self) -> None:
        if self.method is DEFAULT and self.beside is None:
            object.__setattr__(self, "method", default_for(self.kind).method)
        check_choice("task", self.task, ("classification", "regression", "causal-lm"))
        check_size("max_tokens", self.max_tokens)
        check_pooling(self.pooling)
        check_quantised(self.quantised)
        if self.quantised is not None and self.method.technique.place == "model":
            raise AttangentError(
                f"quantised is given for {self.method.name}, which saves the model itself; choose a method "
                "that adds to it, such as ntk or lora"
            )
        if self.beside is not None:
            check_beside(self.beside)
            if self.method.name != "ntk":
                raise AttangentError(f"beside is given for {self.method.name}, expected the method ntk")
        for path in self.files:
            if not path.exists():
                raise AttangentError(f"there is no {path}; {_GIVE}")
        if self.evaluate is not None and self.train.is_dir() != self.evaluate.is_dir():
            raise AttangentError(
                f"{self.train} and {self.evaluate} are a folder and a file, expected two alike"
            )
        if self.class_weights and self.kind in ("causal-lm", "regression"):
            raise AttangentError(f"class_weights is given for {self.kind}, which has no classes")
        if self.kind == "regression" and self.layout not in (None, "columns"):
            raise AttangentError(f"layout is {self.layout!r}, but regression reads columns; leave it out")

    @property
    def kind(self) -> TaskKind:
        return "image-classification" if self.train.is_dir() else self.task

    @property
    def files(self) -> list[Path]:
        return [self.train] if self.evaluate is None else [self.train, self.evaluate]


def settings_of(tuning: Tuning) -> dict[str, Any]:
    """Plain values that say what was done, with digests of the data; they stand beside the metrics."""
    found = asdict(tuning)
    found |= {
        "train": str(tuning.train),
        "evaluate": None if tuning.evaluate is None else str(tuning.evaluate),
    }
    found["method"] |= {"ntk": tuning.method.ntk.as_dict(), "learning_rate": tuning.method.rate}
    found["method"]["peft"] = dict(tuning.method.peft)
    found["columns"] = None if tuning.columns is None else [*tuning.columns.text, tuning.columns.label]
    found["digests"] = [digest_of(path) for path in tuning.files]
    found["beside"] = None if tuning.beside is None else digest_of(tuning.beside / WEIGHTS)
    return found


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of the names and sizes of the files below a folder."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    listed = sorted(
        (str(one.relative_to(path)), one.stat().st_size) for one in path.rglob("*") if one.is_file()
    )
    return hashlib.sha256(repr(listed).encode()).hexdigest()


def differences(written: dict[str, Any], asked: dict[str, Any], place: str = "") -> list[str]:
    """The settings of a run's file that are not as asked, as `name: written, now asked`.

    Settings that the file does not have are passed over: they came with a later version.
    """
    found = []
    for name in written:
        if name not in asked:
            found.append(f"{place}{name}: {written[name]!r}, now unknown")
        elif isinstance(written[name], dict) and isinstance(asked[name], dict):
            found += differences(written[name], asked[name], f"{place}{name}.")
        elif written[name] != asked[name]:
            found.append(f"{place}{name}: {written[name]!r}, now {asked[name]!r}")
    return found
