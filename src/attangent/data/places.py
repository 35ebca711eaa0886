"""Data folders (ATTANGENT_DATA or those that the user added), and the files found in them."""

import gzip
import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_json
from attangent.data.catalogue import DataFile, DataSet

VARIABLE = "ATTANGENT_DATA"


@dataclass(frozen=True)
class FileState:
    """A file of the catalogue on this machine.

    Attributes:
        file: The file.
        place: Its path; None if it is missing.
        state: `there` if it exists; `as listed`, `different` or `damaged` if its content was compared.
    """

    file: DataFile
    place: Path | None
    state: Literal["there", "missing", "as listed", "different", "damaged"]

    @property
    def fine(self) -> bool:
        """Whether the file exists and does not differ."""
        return self.state in ("there", "as listed")


def settings_file() -> Path:
    """Return data.json in ATTANGENT_CONFIG or the user's settings folder; it lists added folders."""
    folder = os.environ.get("ATTANGENT_CONFIG")
    if folder:
        return Path(folder) / "data.json"
    home = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return Path(home or Path.home() / ".config") / "attangent" / "data.json"


def folders() -> tuple[Path, ...]:
    """Return the folders searched for data files, first to last.

    Returns:
        The folder in ATTANGENT_DATA if that is set, otherwise the folders that were added.

    Example:
        >>> isinstance(folders(), tuple)
        True
    """
    named = os.environ.get(VARIABLE)
    return (Path(named),) if named else added_folders()


def added_folders() -> tuple[Path, ...]:
    """Return the folders that were added, the latest first."""
    path = settings_file()
    if not path.is_file():
        return ()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Path(folder) for folder in content["folders"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise AttangentError(
            f'{path} cannot be read, expected {{"folders": [...]}}: repair or remove it'
        ) from None


def add_folder(folder: str | PathLike[str]) -> Path:
    """Remember a folder with data.

    Args:
        folder: An existing folder.

    Returns:
        The settings file that lists it.

    Raises:
        AttangentError: If there is no such folder.

    Example:
        >>> add_folder("no such folder")
        Traceback (most recent call last):
        attangent._core.errors.AttangentError: there is no folder no such folder; pass one that has data sets
    """
    added = Path(folder).expanduser().resolve()
    if not added.is_dir():
        raise AttangentError(f"there is no folder {folder}; pass one that has data sets")
    path = settings_file()
    listed = [str(added), *(str(earlier) for earlier in added_folders() if earlier != added)]
    real_folder(path.parent)
    write_json(path, {"folders": listed})
    return path


def data_file(name: str) -> Path | None:
    """Return the first file of this name in the data folders.

    Args:
        name: A path below a data folder, such as `ett/ETTh1.csv.gz`.

    Returns:
        Its path; None if no folder has it.

    Example:
        >>> data_file("no/such/file.csv") is None
        True
    """
    return next((folder / name for folder in folders() if (folder / name).is_file()), None)


def look(data_set: DataSet, digests: bool = False) -> list[FileState]:
    """Find the files of a data set.

    Args:
        data_set: A data set of the catalogue.
        digests: Also compare their content with the catalogue.

    Returns:
        The state of each file.

    Example:
        >>> from attangent.data import get_set
        >>> [state.file.path for state in look(get_set("ett"))]
        ['ett/ETTh1.csv.gz', 'ett/ETTh2.csv.gz']
    """
    return [_look(file, digests) for file in data_set.files]


def _look(file: DataFile, digests: bool) -> FileState:
    path = data_file(file.path)
    if path is None:
        return FileState(file, None, "missing")
    if not digests or not file.content:
        return FileState(file, path, "there")
    digest = content_digest(path)
    if digest is None:
        return FileState(file, path, "damaged")
    return FileState(file, path, "as listed" if digest == file.content else "different")


def content_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, decompressed if it is a .gz; None if decompression fails."""
    file: Any
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None
