"""Data files that a claim reads: below the folder that the environment variable ATTANGENT_DATA names."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

ABSENT = "absent"


def data_file(name: str) -> Path | None:
    """The file of this name below ATTANGENT_DATA; None where it is not there."""
    folder = os.environ.get("ATTANGENT_DATA")
    path = Path(folder or ".") / name
    return path if folder and path.is_file() else None


def data_digests(names: Iterable[str]) -> dict[str, str]:
    """What tells the findings of one data set from those of another: a digest of each file, or `absent`."""
    return {name: _digest(data_file(name)) for name in names}


def _digest(path: Path | None) -> str:
    if path is None:
        return ABSENT
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
