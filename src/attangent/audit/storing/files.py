"""Files written whole or not at all, in a folder that one process at a time may write to."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from attangent._errors import AttangentError

try:
    import fcntl
except ImportError:  # not a POSIX system: no lock, everything else works
    fcntl = None

TEMPORARY = ".partial"


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to a temporary name beside `path`, flush it to the disk, and rename it into place.

    The rename replaces a symbolic link rather than following it.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files a killed process left in `folder`."""
    for path in folder.glob(f".*{TEMPORARY}"):
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
    if not os.access(path, os.W_OK | os.X_OK):
        raise AttangentError(f"cannot write to the folder {path}: permission denied; name another folder")
    return path


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold `folder` for writing; the lock is the kernel's, so it goes with the process, however that ends."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AttangentError(
                f"another audit is writing to {folder}: wait for it or name another folder"
            ) from None
        yield
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
