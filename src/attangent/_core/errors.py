"""The package's error class, and ways to turn other errors into it."""

from collections.abc import Iterator
from contextlib import contextmanager


class AttangentError(ValueError):
    """Raised for unusable input; the message says what is wrong, what was expected and what to do.

    Args:
        message: The three of them in one sentence or two.

    Example:
        >>> NTKConfig(size=0)
        Traceback (most recent call last):
        attangent._core.errors.AttangentError: size is 0, expected a whole number of at least 1
    """


class CalibrationWarning(UserWarning):
    """Issued when an adapter with calibrated units is attached without data to measure them on.

    Args:
        message: What to pass so that the units can be measured.
    """


def describe_os_error(error: OSError) -> str:
    """Return what the system refused, for which file, and what to do about it."""
    reason = error.strerror or str(error) or type(error).__name__
    file = f" ({error.filename})" if error.filename else ""
    return f"{reason}{file}: choose another location, or free disk space or change permissions"


@contextmanager
def loading(message: str) -> Iterator[None]:
    """Turn any exception raised by a third-party loader into an AttangentError.

    Damaged files make such loaders raise exceptions of every type. ImportError still means a missing package.

    Args:
        message: Start of the error message; the reason is appended.
    """
    try:
        yield
    except (AttangentError, ImportError):
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0] or type(error).__name__
        raise AttangentError(f"{message}: {reason}") from error
