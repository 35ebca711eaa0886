"""What changed since the last release: ratios then and now, for the same work of the same contestant."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.harness.benchmark import label

LEAST = 0.05
"""Smaller changes are not told from noise."""


class Change(NamedTuple):
    """A contestant's time relative to its baseline, in the release and now."""

    name: str
    size: str
    contestant: str
    baseline: str
    then: float
    now: float

    @property
    def factor(self) -> float:
        return self.now / self.then


def changes(rows: Sequence[Mapping[str, Any]], released: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Those of at least 5 %, the slower first; rows that only one of the two has are left out."""
    before = {_key(row): row["ratio"] for row in released}
    found = [
        Change(*_key(row), before[_key(row)], row["ratio"])
        for row in rows
        if row["contestant"] != row["baseline"] and row["ratio"] and before.get(_key(row))
    ]
    large = [change for change in found if abs(change.factor - 1) >= LEAST]
    return sorted(large, key=lambda change: -change.factor)


def kept_for_comparison(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a release, with no more than `changes` asks for."""
    return [{name: row[name] for name in ("name", "size", "contestant", "baseline", "ratio")} for row in rows]


def _key(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return row["name"], label(row["size"]), row["contestant"], row["baseline"]
