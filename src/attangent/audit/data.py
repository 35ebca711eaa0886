"""Data files that a claim reads, below the folders that `attangent data list` shows."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from attangent.data.places import data_file

__all__ = ["ABSENT", "data_digests", "data_file"]

ABSENT = "absent"


def data_digests(names: Iterable[str]) -> dict[str, str]:
    """What tells the findings of one data set from those of another: a digest of each file, or `absent`."""
    return {name: _digest(data_file(name)) for name in names}


def _digest(path: Path | None) -> str:
    if path is None:
        return ABSENT
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
