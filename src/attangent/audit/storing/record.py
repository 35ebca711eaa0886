"""A finding with where it comes from, and its form as JSON and arrays."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series

Arrays = dict[str, np.ndarray]


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
        content = body["finding"]
        figures = tuple(_figure(f, values, arrays) for f, values in enumerate(content["figures"]))
        finding = Finding(
            conclusions=_decoded(Conclusion, content["conclusions"], "bound", "measured"),
            hypotheses=_decoded(Hypothesis, content["hypotheses"], "required", "measured"),
            numbers={str(name): float(value) for name, value in content["numbers"].items()},
            figures=figures,
            remark=str(content["remark"]),
            lacks=str(content.get("lacks", "")),
        )
        return cls(Origin(**body["origin"]), finding, float(body["seconds"]), dict(body["versions"]))

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


def _decoded(kind: type, rows: list[dict[str, Any]], *numbers: str) -> tuple[Any, ...]:
    return tuple(kind(**{**row, **{name: float(row[name]) for name in numbers}}) for row in rows)


def _figure(f: int, values: dict[str, Any], arrays: Arrays) -> Figure:
    series = tuple(
        Series.of(
            row["label"], arrays[f"figure{f}-series{s}-x"], arrays[f"figure{f}-series{s}-y"], row["kind"]
        )
        for s, row in enumerate(values["series"])
    )
    return Figure(**{**values, "series": series, "ticks": tuple(values["ticks"])})
