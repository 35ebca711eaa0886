"""The compression methods, one file each, and those that installed packages add."""

from attangent._core.plugins import method_of
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.plain import PlainMethod
from attangent.compression.methods.recall import RecallMethod

GROUP = "attangent.compression_methods"
"""Group of the entry points by which packages add methods."""

METHODS: dict[str, CompressionMethod] = {method.name: method for method in (RecallMethod(), PlainMethod())}


def method_named(name: str) -> CompressionMethod:
    """Return the method of this name.

    Args:
        name: A name in `METHODS`, or of a method that an installed package adds.

    Raises:
        AttangentError: If there is no such method.

    Example:
        >>> method_named("plain").weighted
        False
    """
    return method_of(name, METHODS, GROUP, CompressionMethod)
