"""The one error class of the project, and how errors of others become it."""

from collections.abc import Iterator
from contextlib import contextmanager


class AttangentError(ValueError):
    """Something given cannot be used; the message says what was given, what was expected, what to do.

    >>> NTKConfig(size=0)
    Traceback (most recent call last):
    attangent._core.errors.AttangentError: size is 0, expected a whole number of at least 1
    """


class CalibrationWarning(UserWarning):
    """An adapter was attached in units that are to be measured, and nothing was given to measure them on."""


def in_words(error: OSError) -> str:
    """What the system refused, of which file, and what to do about it."""
    what = error.strerror or str(error) or type(error).__name__
    which = f" ({error.filename})" if error.filename else ""
    return f"{what}{which}: name another place, or make room or leave to use this one"


@contextmanager
def loading(said: str) -> Iterator[None]:
    """Within it a library of others reads files of others: what it raises becomes "`said`: the reason".

    Files that were cut off or damaged end there in exceptions of every kind. A missing package stays one.
    """
    try:
        yield
    except (AttangentError, ImportError):
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0] or type(error).__name__
        raise AttangentError(f"{said}: {reason}") from error
