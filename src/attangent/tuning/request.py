"""What a run of `tune` was asked for."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent.tuning.kinds import TaskKind
from attangent.tuning.methods import Method
from attangent.tuning.training import Training


@dataclass(frozen=True)
class Tuning:
    """A model, its data, the method and the training.

    train, evaluate: .jsonl or .csv files, or folders with a folder of images a class.
    task: `classification` or `causal-lm`; images are always classified.
    max_tokens: of each text feature (classification, cut there) or of the whole (causal-lm, more is refused).
    """

    model: str
    train: Path
    evaluate: Path
    task: TaskKind = "classification"
    layout: str | None = None
    max_tokens: int = 128
    method: Method = field(default_factory=Method)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.task not in ("classification", "causal-lm"):
            raise AttangentError(f"task is {self.task!r}, expected classification or causal-lm")
        check_size("max_tokens", self.max_tokens)
        for path in (self.train, self.evaluate):
            if not path.exists():
                raise AttangentError(f"there is no {path}; give a .jsonl or .csv file, or a folder of images")
        if self.train.is_dir() != self.evaluate.is_dir():
            raise AttangentError(
                f"{self.train} and {self.evaluate} are a folder and a file, expected two alike"
            )

    @property
    def kind(self) -> TaskKind:
        return "image-classification" if self.train.is_dir() else self.task


def settings_of(tuning: Tuning) -> dict[str, Any]:
    """Plain values that say what was done; they stand beside the metrics."""
    found = asdict(tuning)
    found |= {"train": str(tuning.train), "evaluate": str(tuning.evaluate)}
    found["method"] |= {"ntk": tuning.method.ntk.as_dict(), "learning_rate": tuning.method.rate}
    return found
