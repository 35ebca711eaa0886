"""Files written whole or not at all, in a folder that one process at a time may write to."""

import contextlib
import glob
import json
import os
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from attangent._core.errors import AttangentError

try:
    import fcntl
except ImportError:  # not a POSIX system: no lock, everything else works
    fcntl = None

TEMPORARY = ".partial"
_PAGE = 4096
_OF_TORCH = ("inline_container", "PytorchStreamWriter")
"""What torch.save names where its file cannot be written."""


@contextlib.contextmanager
def writing(path: str | PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it is flushed and renamed to `path` where all went well.

    The rename replaces a symbolic link rather than following it. What the system refuses (no room, no
    permission) becomes an AttangentError; the file that was there before stays as it was.
    """
    path = Path(path)
    with refusals(path):
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY + path.suffix
        )
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _flush(temporary)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _flush(path.parent)


def write_whole(path: str | PathLike[str], content: bytes | str) -> None:
    """Write `content` to `path`, whole or not at all."""
    with writing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: str | PathLike[str], content: Any) -> None:
    """Write `content` as JSON with one value on each line, whole or not at all."""
    write_whole(path, json.dumps(content, indent=2) + "\n")


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files a killed process left in `folder`: all, or those of the file `name`."""
    start = "." if name is None else f".{glob.escape(name)}."
    for path in folder.glob(f"{start}*{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def real_folder(path: Path) -> Path:
    """`path` as a folder of its own: made where it is missing, refused where it is a link or a file."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AttangentError(
            f"cannot make the folder {path}: {error.strerror}; name a folder you may write to"
        ) from None
    if path.is_symlink():
        raise AttangentError(f"{path} is a symbolic link, expected a plain folder: remove the link")
    _try_out(path, path)
    return path


def check_file(path: Path) -> None:
    """Refuse a place where no file can be written, before any work."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise AttangentError(f"cannot write {path}: there is no folder {folder}")
    if path.is_dir():
        raise AttangentError(f"cannot write {path}: it is a folder, expected the name of a file")
    if not path.exists() or path.is_file():  # what is printed to a device or a pipe is its own affair
        _try_out(folder, path)


def _try_out(folder: Path, path: Path) -> None:
    """Write a page to a file that nobody sees, so that a folder without leave or room is named at once."""
    with refusals(path), tempfile.TemporaryFile(dir=folder, prefix=".", suffix=TEMPORARY) as file:
        file.write(bytes(_PAGE))
        file.flush()


@contextlib.contextmanager
def only_writer(folder: Path, what: str = "run") -> Iterator[None]:
    """Hold `folder` for writing; refused where another process holds it.

    The lock is the kernel's, so it goes with the process, however that ends.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AttangentError(
                f"another {what} is writing to {folder}: wait for it or name another folder"
            ) from None
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Within it a write that fails, by us, torch or safetensors, is an AttangentError that names `path`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or is_failed_write(error):
            why = getattr(error, "strerror", None) or error
            raise AttangentError(
                f"cannot write {path}: {why}; free some room or name another place"
            ) from error
        raise


def is_failed_write(error: Exception) -> bool:
    """Whether a library says in its own way that a file could not be written."""
    by_torch = isinstance(error, RuntimeError) and any(words in str(error) for words in _OF_TORCH)
    return by_torch or type(error).__name__ == "SafetensorError"


def _flush(path: Path) -> None:
    """Have what was written to a file or a folder on the disk; some systems cannot do that for folders."""
    with contextlib.suppress(*([PermissionError] if path.is_dir() else [])):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
