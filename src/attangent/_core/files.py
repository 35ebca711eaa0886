"""Atomic file writes, folders with one writer at a time, and settings from TOML and JSON files."""

import contextlib
import glob
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from attangent._core.checks import check_names
from attangent._core.errors import AttangentError

try:
    import fcntl
except ImportError:  # not a POSIX system: no lock, everything else works
    fcntl = None

TEMPORARY = ".partial"
_LARGEST = 16 * 2**20
_LARGEST_TOML = 2**20
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""A dotted key of more than 100 names, for which tomllib takes memory with the square of their number."""
_Settings = TypeVar("_Settings")
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


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    return _read(path, "TOML", _parse_toml, _LARGEST_TOML)


def _parse_toml(text: str) -> dict[str, Any]:
    deep = _DEEP_KEY.search(text)
    if deep is not None:
        raise ValueError(f"the key {deep.group():.30}... has more than 100 names, expected a few")
    return tomllib.loads(text)


def read_json(path: Path, largest: int = _LARGEST) -> dict[str, Any]:
    """Return the object in a JSON file of at most `largest` bytes."""
    return _read(path, "JSON", json.loads, largest)


def settings_of(kind: type[_Settings], content: Any, what: str) -> _Settings:
    """Return `content` as the dataclass `kind`.

    Raises:
        AttangentError: If a name is unknown or a value has another type than declared; it says where.
    """
    import msgspec

    if not isinstance(content, Mapping):
        raise AttangentError(f"{what} is {type(content).__name__}, expected a table of settings")
    check_names(map(str, content), (field.name for field in fields(kind)), what)  # pyright: ignore[reportArgumentType]
    try:
        return msgspec.convert(dict(content), kind, dec_hook=_as_path)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        raise AttangentError(f"{what}: {str(error).replace(' - at `$`', '')}") from None


def _as_path(kind: type, value: Any) -> Any:
    """Convert texts to paths; msgspec calls this for types it does not know."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _read(path: Path, form: str, parse: Callable[[str], Any], largest: int) -> dict[str, Any]:
    if not path.is_file():
        raise AttangentError(f"there is no file {path}; pass a {form} file")
    if path.stat().st_size > largest:
        raise AttangentError(f"{path} has {path.stat().st_size:,} bytes, expected at most {largest:,}")
    try:
        content = parse(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # ValueError also for bytes that are not UTF-8
        raise AttangentError(f"{path} is not {form}: {error}") from None
    if not isinstance(content, dict):
        raise AttangentError(f"{path} has a {type(content).__name__}, expected names with values")
    return content
