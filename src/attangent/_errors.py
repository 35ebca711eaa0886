"""The one error class of the project."""


class AttangentError(ValueError):
    """Something given cannot be used; the message says what was given, what was expected, what to do."""
