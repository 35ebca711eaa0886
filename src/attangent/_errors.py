"""The one error class of the project."""


class AttangentError(ValueError):
    """Something given cannot be used; the message says what was given, what was expected, what to do.

    >>> NTKConfig(size=0)
    Traceback (most recent call last):
    attangent._errors.AttangentError: size is 0, expected a whole number of at least 1
    """


class CalibrationWarning(UserWarning):
    """An adapter was attached in units that are to be measured, and nothing was given to measure them on."""


def in_words(error: OSError) -> str:
    """What the system refused, of which file, and what to do about it."""
    what = error.strerror or str(error) or type(error).__name__
    which = f" ({error.filename})" if error.filename else ""
    return f"{what}{which}: name another place, or make room or leave to use this one"
