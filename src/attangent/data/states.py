"""Whether the files of a data set are here and hold what they should."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attangent.data.catalogue import DataFile, DataSet
from attangent.data.places import data_file

_PIECE = 1 << 20


@dataclass(frozen=True)
class FileState:
    """A file of the catalogue, where it is (None: nowhere), and what a look at it found."""

    file: DataFile
    place: Path | None
    state: Literal["there", "missing", "as listed", "different", "damaged"]

    @property
    def fine(self) -> bool:
        return self.state in ("there", "as listed")


def look(data_set: DataSet, digests: bool = False) -> list[FileState]:
    """Where each file of a data set is; with `digests` its content is compared with the catalogue's."""
    return [_look(file, digests) for file in data_set.files]


def _look(file: DataFile, digests: bool) -> FileState:
    place = data_file(file.path)
    if place is None:
        return FileState(file, None, "missing")
    if not digests or not file.content:
        return FileState(file, place, "there")
    found = content_digest(place)
    if found is None:
        return FileState(file, place, "damaged")
    return FileState(file, place, "as listed" if found == file.content else "different")


def content_digest(path: Path) -> str | None:
    """The SHA-256 of a file, unpacked where its name ends in .gz; None where it cannot be unpacked."""
    try:
        with _opened(path) as file:
            digest = hashlib.sha256()
            while piece := file.read(_PIECE):
                digest.update(piece)
            return digest.hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
