"""Entrants, data sets and training of a comparison of tuning methods."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from attangent._core.checks import check_choice, check_size
from attangent._core.errors import AttangentError
from attangent.tuning.loading import Pooling
from attangent.tuning.methods import Method
from attangent.tuning.request import Start, TrainingSettings


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
