"""Data folders (ATTANGENT_DATA or those that the user added), the files in them, and downloads."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, write_json, write_whole
from attangent._version import __version__
from attangent.data.catalogue import DataFile, DataSet

VARIABLE = "ATTANGENT_DATA"
SECONDS = 30.0
LARGEST = 64 * 2**20
"""Bytes per file; no file of the catalogue is nearly as large."""
_PIECE = 1 << 16
Show = Callable[[str, int, int], None]


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


@dataclass(frozen=True)
class Fetched:
    """The paths of a data set's files, and how many of them are new."""

    places: tuple[Path, ...]
    new: int


def fetch(data_set: DataSet, folder: Path, mirror: str = "", show: Show = lambda *_: None) -> Fetched:
    """Download the files of a data set that `folder` does not have yet.

    Args:
        data_set: A data set of the catalogue.
        folder: Where to put its files.
        mirror: URL of a folder that has the files by the last part of their URLs.
        show: Called with a file's name, the bytes received and their total.
    """
    if not data_set.can_be_fetched and not mirror:
        raise AttangentError(
            f"{data_set.name} cannot be downloaded: get it from {data_set.source}, put its files where "
            "`attangent data list --json` says, then run `attangent data list --check`"
        )
    real_folder(folder)
    with only_writer(folder, "download"):
        new = [_fetch_file(file, folder, mirror, show) for file in data_set.files]
    return Fetched(tuple(folder / file.path for file in data_set.files), sum(new))


def _fetch_file(file: DataFile, folder: Path, mirror: str, show: Show) -> bool:
    path = folder / file.path
    if path.is_file() and content_digest(path) == file.content:
        return False
    if path.exists():
        raise AttangentError(f"{path} exists with other content: move it away or choose another folder")
    real_folder(path.parent)
    partial = path.with_name(f"{path.name}.part")
    _download(_address(file, mirror), partial, show)
    _check_content(partial, file)
    content = partial.read_bytes()
    write_whole(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    partial.unlink()
    return True


def _address(file: DataFile, mirror: str) -> str:
    address = file.url
    if mirror:
        name = file.url.rsplit("/", 1)[-1] or Path(file.path).name.removesuffix(".gz")
        address = f"{mirror.rstrip('/')}/{name}"
    if not address.lower().startswith(("https://", "http://")):
        raise AttangentError(f"the address is {address}, expected one that starts with https:// or http://")
    return address


def _download(address: str, partial: Path, show: Show) -> None:
    """Append the missing bytes to `partial`."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    present = partial.stat().st_size if partial.is_file() else 0
    headers = {"User-Agent": f"attangent/{__version__}"} | ({"Range": f"bytes={present}-"} if present else {})
    try:
        request = Request(address, headers=headers)
        with urlopen(request, timeout=SECONDS) as response:
            _append(response, partial, present if response.status == 206 else 0, show)
    except HTTPError as error:
        if error.code == 416:  # the range is empty: no byte is missing
            return
        raise AttangentError(f"{address} answered {error.code} {error.reason}: try again later") from None
    except (OSError, ValueError) as error:
        raise AttangentError(
            f"{address} could not be downloaded ({error}): check the network and run the same command again; "
            f"it resumes from {partial}"
        ) from None


def _append(response: Any, partial: Path, done: int, show: Show) -> None:
    total = done + int(response.headers.get("Content-Length") or 0)
    with partial.open("ab" if done else "wb") as file:
        while piece := response.read(_PIECE):
            done += len(piece)
            if done > LARGEST:
                raise ValueError(f"it is larger than {LARGEST:,} bytes")
            file.write(piece)
            show(partial.name.removesuffix(".part"), done, max(total, done))
    if done < total:
        raise ValueError(f"it ended after {done:,} of {total:,} bytes")


def _check_content(partial: Path, file: DataFile) -> None:
    digest = content_digest(partial) or ""
    if digest != file.content:
        partial.unlink()
        raise AttangentError(
            f"the download of {file.path} has the digest {digest[:12]}..., expected {file.content[:12]}...: "
            "it was deleted; the source may have changed"
        )
