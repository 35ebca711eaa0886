"""The compression methods, one file each; a new one is added to the list below."""

from attangent._core.errors import AttangentError
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.plain import PlainMethod
from attangent.compression.methods.recall import RecallMethod

METHODS: dict[str, CompressionMethod] = {method.name: method for method in (RecallMethod(), PlainMethod())}


def method_named(name: str) -> CompressionMethod:
    """Return the method of this name.

    Args:
        name: A registered name.

    Raises:
        AttangentError: If there is no such method.

    Example:
        >>> method_named("plain").weighted
        False
    """
    if name not in METHODS:
        raise AttangentError(f"method must be one of {', '.join(METHODS)} (got {name!r})")
    return METHODS[name]
