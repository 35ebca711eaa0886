"""Atomic file writes, and folders that only one process at a time writes to."""

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
_TORCH_WRITERS = ("inline_container", "PytorchStreamWriter")
"""Names in the error of torch.save when it cannot write its file."""


@contextlib.contextmanager
def writing(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file in the folder of `path`; on success, flush it and rename it to `path`.

    The rename replaces a symbolic link and does not follow it. If the system refuses to write (disk full, no
    permission), an AttangentError is raised and the previous file is unchanged.
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
    """Write `content` to `path` atomically."""
    with writing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: str | PathLike[str], content: Any) -> None:
    """Write `content` atomically as JSON with one value per line."""
    write_whole(path, json.dumps(content, indent=2) + "\n")


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove temporary files that a killed process left in `folder`: all, or those of the file `name`."""
    start = "." if name is None else f".{glob.escape(name)}."
    for path in folder.glob(f"{start}*{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def real_folder(path: Path) -> Path:
    """Return `path` as a writable folder, created if missing; links and files are errors."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AttangentError(
            f"cannot create the folder {path}: {error.strerror}; choose a folder you may write to"
        ) from None
    if path.is_symlink():
        raise AttangentError(f"{path} is a symbolic link, expected a plain folder: remove the link")
    _try_out(path, path)
    return path


def check_file(path: Path) -> None:
    """Check that a file can be written at `path`, before any work is done."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise AttangentError(f"cannot write {path}: there is no folder {folder}")
    if path.is_dir():
        raise AttangentError(f"cannot write {path}: it is a folder, expected the name of a file")
    if not path.exists() or path.is_file():  # devices and pipes are not tried
        _try_out(folder, path)


def _try_out(folder: Path, path: Path) -> None:
    """Write one page to an unnamed file, so that missing permission or space is reported at once."""
    with refusals(path), tempfile.TemporaryFile(dir=folder, prefix=".", suffix=TEMPORARY) as file:
        file.write(bytes(_PAGE))
        file.flush()


@contextlib.contextmanager
def only_writer(folder: Path, what: str = "run") -> Iterator[None]:
    """Hold a lock on `folder`; it is an error if another process holds it.

    The kernel releases the lock when the process ends, however it ends.
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
                f"another {what} is writing to {folder}: wait for it or choose another folder"
            ) from None
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turn a failed write, also by torch or safetensors, into an AttangentError that names `path`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or is_failed_write(error):
            reason = getattr(error, "strerror", None) or error
            raise AttangentError(
                f"cannot write {path}: {reason}; free disk space or choose another location"
            ) from error
        raise


def is_failed_write(error: Exception) -> bool:
    """Return whether an exception of torch or safetensors means that a file could not be written."""
    by_torch = isinstance(error, RuntimeError) and any(words in str(error) for words in _TORCH_WRITERS)
    return by_torch or type(error).__name__ == "SafetensorError"


def _flush(path: Path) -> None:
    """Flush a file or folder to disk; some systems do not allow it for folders."""
    with contextlib.suppress(*([PermissionError] if path.is_dir() else [])):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
