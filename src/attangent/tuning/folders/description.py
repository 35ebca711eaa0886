"""What a tuned folder says of itself: enough to load it without the command that made it."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from attangent._core.checks import check_between, check_positive
from attangent._core.errors import AttangentError
from attangent._core.files import write_json
from attangent._core.settings import read_json, settings_of
from attangent.tuning.data.columns import Columns
from attangent.tuning.data.values import ValueUnits
from attangent.tuning.methods.registry import TECHNIQUES
from attangent.tuning.precision import check_quantised
from attangent.tuning.tasks import TaskKind

FILE = "tuned.json"
FORMAT = "attangent tuned 1"
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Description:
    """The base model and its revision on the hub, the method, the labels, and how inputs are read.

    pooling: `mean` where the classifier reads the mean over tokens; see `pooling`.
    text_columns: the columns of a table that were read, for a file of new rows.
    quantised: how the base model was held; see `precision`.
    beside: the folder of the peft adapter that acts with it; see `beside`.
    centre, scale: a number is centre + scale times what the model gives (regression).
    """

    base_model: str
    kind: TaskKind
    method: str
    labels: tuple[str, ...] = ()
    revision: str | None = None
    pooling: str = "first"
    max_tokens: int = 128
    layout: str | None = None
    text_columns: tuple[str, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    quantised: str | None = None
    beside: str | None = None

    def __post_init__(self) -> None:
        texts = {"base_model": self.base_model, "kind": self.kind, "method": self.method}
        if not all(texts.values()) or self.max_tokens < 1:
            raise AttangentError(f"the description of a tuned model is not whole: {asdict(self)}")
        if self.kind not in get_args(TaskKind) or self.method not in TECHNIQUES:
            raise AttangentError(f"the tuned model is of the kind {self.kind!r} by {self.method!r}: unknown")
        check_positive("scale of the values", self.scale)
        check_between("centre of the values", self.centre, -sys.float_info.max, sys.float_info.max)
        check_quantised(self.quantised)
        if not isinstance(self.beside, str | None):
            raise AttangentError(f"beside is {self.beside!r}, expected a folder")
        if self.pooling not in ("first", "mean"):
            raise AttangentError(f"the tuned model's pooling is {self.pooling!r}, expected first or mean")

    @property
    def units(self) -> ValueUnits:
        return ValueUnits(self.centre, self.scale)

    @property
    def columns(self) -> Columns | None:
        return Columns(self.text_columns) if self.text_columns else None

    def write(self, place: Path) -> None:
        """Put the description into the folder of the weights."""
        write_json(place / FILE, {"format": FORMAT, **asdict(self)})


def read_description(place: Path) -> Description:
    """The description in a folder; one that is not ours or not whole is refused."""
    path = place / FILE
    content = read_json(path, _LARGEST)
    if content.pop("format", None) != FORMAT:
        raise AttangentError(f"{path} does not say {FORMAT!r}: was it written by a newer version?")
    return settings_of(Description, content, str(path))
