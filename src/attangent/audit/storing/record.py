"""A finding with where it comes from, and its form as JSON and arrays."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from attangent.audit.claims import is_claim_id, kind_of
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series, SeriesKind, Trend

Arrays = dict[str, np.ndarray]
SERIES_KINDS = get_args(SeriesKind)


@dataclass(frozen=True)
class Origin:
    """Which statement a finding belongs to, and what made it."""

    claim: str
    title: str
    place: str
    statement: str
    profile: str
    settings: dict[str, Any]
    seed: int
    code: str
    kind: str = ""
    quote: str = ""
    rests_on: tuple[str, ...] = ()
    repairs: str = ""
    derivation: str = ""

    def __post_init__(self) -> None:
        if not self.kind:  # an earlier version did not write it
            object.__setattr__(self, "kind", kind_of(self.claim))

    @property
    def paper(self) -> str:
        return self.claim.split("/")[0]

    @property
    def key(self) -> str:
        """What a finding is known by: claim, settings, seed and code version."""
        identity = [self.claim, plain(self.settings), self.seed, self.code]
        return hashlib.sha256(canonical(identity)).hexdigest()

    @property
    def stem(self) -> str:
        """The name of its files: one claim and seed has one finding in a run."""
        return f"{self.claim.replace('/', '--')}--seed-{self.seed}"


@dataclass(frozen=True)
class Record:
    """A finding, its origin, and the circumstances, which may differ between two equal findings."""

    origin: Origin
    finding: Finding
    seconds: float
    versions: dict[str, str]

    def encode(self) -> tuple[dict[str, Any], Arrays]:
        """This record as JSON values and arrays."""
        content = asdict(self.finding)
        arrays: Arrays = {}
        for f, figure in enumerate(content["figures"]):
            for s, series in enumerate(figure["series"]):
                for axis in "xy":
                    arrays[f"figure{f}-series{s}-{axis}"] = series.pop(axis)
        body = {
            "origin": asdict(self.origin),
            "finding": content,
            "verdict": self.finding.verdict.value,
            "seconds": self.seconds,
            "versions": self.versions,
        }
        return plain(body), arrays

    @classmethod
    def decode(cls, body: dict[str, Any], arrays: Arrays) -> "Record":
        """The record that `encode` gave; raises where the parts do not fit."""
        body = clean(body)
        content = body["finding"]
        finding = Finding(
            conclusions=tuple(_conclusion(row) for row in content["conclusions"]),
            hypotheses=tuple(_line(Hypothesis, row, "required") for row in content["hypotheses"]),
            numbers={name: float(value) for name, value in content["numbers"].items()},
            figures=tuple(_figure(f, values, arrays) for f, values in enumerate(content["figures"])),
            remark=_text(content["remark"]),
            differs=tuple(map(_text, content.get("differs", ()))),
            lacks=_text(content.get("lacks", "")),
        )
        versions = {name: _text(value) for name, value in body["versions"].items()}
        return cls(decode_origin(body["origin"]), finding, float(body["seconds"]), versions)

    def content(self) -> tuple[str, bytes]:
        """All that a seed fixes: equal for two runs that measured the same."""
        body, arrays = self.encode()
        digest = hashlib.sha256()
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
        return digest.hexdigest(), canonical([body["origin"], body["finding"], body["verdict"]])


def canonical(value: Any) -> bytes:
    """JSON with one spelling for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def plain(value: Any) -> Any:
    """`value` in JSON's own types; numbers that JSON lacks become the strings inf, -inf and nan."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def clean(value: Any) -> Any:
    """`value` with letters that no encoding knows replaced, so that it can be printed and written."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list) else value


def decode_origin(values: dict[str, Any]) -> Origin:
    """The origin of these values, as written now or by an earlier version; raises where they do not fit."""
    if not is_claim_id(values["claim"]) or not isinstance(values["settings"], dict):
        raise ValueError(f"{values['claim']!r} is no claim with settings")
    return _typed(Origin, {**values, "rests_on": tuple(map(_text, values.get("rests_on", ())))})


def _conclusion(row: dict[str, Any]) -> Conclusion:
    trend = row.get("trend")
    if trend is not None:
        sizes, values = (tuple(float(number) for number in trend[part]) for part in ("sizes", "values"))
        row = {**row, "trend": Trend(sizes, values)}
    return _line(Conclusion, row, "bound")


def _line(kind: Any, row: dict[str, Any], bound: str) -> Any:
    return _typed(kind, {**row, bound: float(row[bound]), "measured": float(row["measured"])})


def _typed(kind: Any, values: dict[str, Any]) -> Any:
    """The dataclass `kind` of these values, refused where one of them has another type than declared."""
    made = kind(**values)
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint, value = hints[field.name], getattr(made, field.name)
        known = hint in (str, bool, int) or get_origin(hint) is UnionType
        if known and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
            raise ValueError(f"{field.name} is {value!r}")
    return made


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _figure(f: int, values: dict[str, Any], arrays: Arrays) -> Figure:
    series = tuple(
        Series.of(
            _text(row["label"]),
            arrays[f"figure{f}-series{s}-x"],
            arrays[f"figure{f}-series{s}-y"],
            row["kind"],
        )
        for s, row in enumerate(values["series"])
    )
    figure = _typed(Figure, {**values, "series": series, "ticks": tuple(map(_text, values["ticks"]))})
    if any(part.kind not in SERIES_KINDS for part in series):
        raise ValueError(f"{figure.title!r} has a series of a kind that nobody can draw")
    return figure
