"""Public names that are imported on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` for names defined in its modules.

    Args:
        package: The `__name__` of the package.
        homes: The module of each public name, relative to the package.

    Example:
        >>> look_up, names = lazy_names("attangent._core", {"AttangentError": "errors"})
        >>> look_up("AttangentError").__name__, names()
        ('AttangentError', ['AttangentError'])
    """

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def names() -> list[str]:
        return sorted(homes)

    return look_up, names
