"""Download data sets that the user names, and nothing else.

A download goes to NAME.part, which the next attempt resumes. The file is renamed once its digest is right.
"""

import gzip
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, write_whole
from attangent._version import __version__
from attangent.data.catalogue import DataFile, DataSet
from attangent.data.places import content_digest

SECONDS = 30.0
LARGEST = 64 * 2**20
"""Bytes per file; no file of the catalogue is nearly as large."""
_PIECE = 1 << 16

Show = Callable[[str, int, int], None]


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
    if urllib.parse.urlsplit(address).scheme not in ("https", "http"):
        raise AttangentError(f"the address is {address}, expected one that starts with https:// or http://")
    return address


def _download(address: str, partial: Path, show: Show) -> None:
    """Append the missing bytes to `partial`."""
    present = partial.stat().st_size if partial.is_file() else 0
    headers = {"User-Agent": f"attangent/{__version__}"} | ({"Range": f"bytes={present}-"} if present else {})
    try:
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            _append(response, partial, present if response.status == 206 else 0, show)
    except urllib.error.HTTPError as error:
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
