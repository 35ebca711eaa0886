"""Fetches data sets that the user asks for by name, and nothing else.

A file is taken in pieces into NAME.part, which a later try goes on with; it gets its name once its content is
that of the catalogue.
"""

import gzip
import hashlib
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError
from attangent._core.files import only_writer, real_folder, writing
from attangent._version import __version__
from attangent.data.catalogue import DataFile, DataSet
from attangent.data.states import content_digest

SECONDS = 30.0
LARGEST = 64 * 2**20
"""No file of the catalogue comes near it: more than this is not what was asked for."""
_PIECE = 1 << 16

Show = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Fetched:
    """The files of a data set in a folder, and which of them were there before."""

    places: tuple[Path, ...]
    new: int


def fetch(data_set: DataSet, folder: Path, mirror: str = "", show: Show = lambda *_: None) -> Fetched:
    """Put the files of a data set below `folder`; those there with the right content are left as they are.

    `mirror` is the address of a folder that holds the files by the last part of their addresses.
    """
    if not data_set.can_be_fetched and not mirror:
        raise AttangentError(
            f"{data_set.name} cannot be fetched as it is: get it from {data_set.source}, put its files where "
            "`attangent data list --json` says, then run `attangent data check`"
        )
    real_folder(folder)
    with only_writer(folder, "download"):
        new = [_fetch_file(file, folder, mirror, show) for file in data_set.files]
    return Fetched(tuple(folder / file.path for file in data_set.files), sum(new))


def _fetch_file(file: DataFile, folder: Path, mirror: str, show: Show) -> bool:
    place = folder / file.path
    if place.is_file() and content_digest(place) == file.content:
        return False
    if place.exists():
        raise AttangentError(f"{place} is there with other content: move it away or name another folder")
    real_folder(place.parent)
    partial = place.with_name(f"{place.name}.part")
    _download(_address(file, mirror), partial, show)
    _check_content(partial, file)
    with writing(place) as temporary:
        _pack(partial, temporary, place.suffix == ".gz")
    partial.unlink()
    return True


def _address(file: DataFile, mirror: str) -> str:
    address = file.url
    if mirror:
        name = file.url.rsplit("/", 1)[-1] or Path(file.path).name.removesuffix(".gz")
        address = f"{mirror.rstrip('/')}/{name}"
    if urllib.parse.urlsplit(address).scheme not in ("https", "http"):
        raise AttangentError(f"the address is {address}, expected one that begins with https:// or http://")
    return address


def _download(address: str, partial: Path, show: Show) -> None:
    """Append to `partial` what is missing of it."""
    there = partial.stat().st_size if partial.is_file() else 0
    headers = {"User-Agent": f"attangent/{__version__}"} | ({"Range": f"bytes={there}-"} if there else {})
    try:
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            _append(answer, partial, there if answer.status == 206 else 0, show)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is missing
            return
        raise AttangentError(f"{address} answered {error.code} {error.reason}: try again later") from None
    except (OSError, ValueError) as error:
        raise AttangentError(
            f"{address} could not be fetched ({error}): check the network and give the same command again; "
            f"it goes on with {partial}"
        ) from None


def _append(answer: Any, partial: Path, there: int, show: Show) -> None:
    total = there + int(answer.headers.get("Content-Length") or 0)
    with partial.open("ab" if there else "wb") as file:
        done = there
        while piece := answer.read(_PIECE):
            done += len(piece)
            if done > LARGEST:
                raise ValueError(f"it is larger than {LARGEST:,} bytes")
            file.write(piece)
            show(partial.name.removesuffix(".part"), done, max(total, done))
    if done < total:
        raise ValueError(f"it ended after {done:,} of {total:,} bytes")


def _check_content(partial: Path, file: DataFile) -> None:
    with partial.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != file.content:
        partial.unlink()
        raise AttangentError(
            f"what was fetched for {file.path} has the digest {found[:12]}..., expected "
            f"{file.content[:12]}...: it was thrown away; the source may have changed"
        )


def _pack(partial: Path, place: Path, gzipped: bool) -> None:
    content = partial.read_bytes()
    place.write_bytes(gzip.compress(content, mtime=0) if gzipped else content)
    os.utime(place)
