"""What a tuned folder says of itself: enough to load it without the command that made it."""

import json
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from attangent._checks import check_between, check_positive
from attangent._errors import AttangentError
from attangent._files import write_json
from attangent.tuning.data.columns import Columns
from attangent.tuning.data.values import ValueUnits
from attangent.tuning.kinds import TaskKind
from attangent.tuning.methods.registry import TECHNIQUES
from attangent.tuning.precision import check_quantised

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
        whole = all(isinstance(value, str) and value for value in texts.values())
        named = all(isinstance(name, str) for name in (*self.labels, *self.text_columns))
        if not whole or not named or not isinstance(self.max_tokens, int) or self.max_tokens < 1:
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
    if path.stat().st_size > _LARGEST:
        raise AttangentError(f"{path} has {path.stat().st_size:,} bytes, expected at most {_LARGEST:,}")
    try:
        content = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AttangentError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise AttangentError(f"{path} does not say {FORMAT!r}: was it written by a newer version?")
    unknown = sorted(set(content) - {field.name for field in fields(Description)})
    if unknown:
        raise AttangentError(f"{path} has unknown keys {', '.join(unknown)}")
    return _of(content, path)


def _of(content: dict[str, Any], path: Path) -> Description:
    lists = {name: content.get(name, []) for name in ("labels", "text_columns")}
    if not all(isinstance(value, list) for value in lists.values()):
        raise AttangentError(f"{path}: labels and text_columns must be lists")
    try:
        return Description(**{**content, **{name: tuple(value) for name, value in lists.items()}})
    except (AttangentError, TypeError) as error:
        raise AttangentError(f"{path}: {error}") from None
