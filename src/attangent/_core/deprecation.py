"""Deprecated names: they work for one more version and warn with their replacement.

A name that is renamed or removed in 0.2.x keeps working, with a warning, in all releases of 0.3.x.
"""

import functools
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar, cast

from attangent._core.errors import AttangentError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def warn_deprecated(what: str, instead: str, since: str, level: int = 3) -> None:
    """Warn that `what` is deprecated; `level` is the `stacklevel` of warnings.warn."""
    warnings.warn(
        f"{what} is deprecated since attangent {since} and will be removed after the next version: "
        f"use {instead}",
        FutureWarning,
        stacklevel=level,
    )


def renamed_arguments(since: str, **names: str) -> Callable[[_Function], _Function]:
    """Return a decorator that lets a function still accept arguments by their old names.

    Args:
        since: The version that renamed them.
        **names: The new name of each old one.

    Example:
        >>> @renamed_arguments("0.2", told="progress")
        ... def walk(progress=None):
        ...     return progress
        >>> with warnings.catch_warnings(action="ignore"):
        ...     walk(told=3)
        3
    """

    def wrap(function: _Function) -> _Function:
        called = function.__name__
        if called == "__init__":
            called = function.__qualname__.split(".")[-2]

        @functools.wraps(function)
        def entry(*args: Any, **arguments: Any) -> Any:
            for old in [name for name in arguments if name in names]:
                new = names[old]
                if new in arguments:
                    raise AttangentError(f"both {old} and {new} are given; {old} is the old name of {new}")
                warn_deprecated(f"{called}({old}=)", f"{new}=", since)
                arguments[new] = arguments.pop(old)
            return function(*args, **arguments)

        return cast(_Function, entry)

    return wrap


def moved_names(
    module: str, since: str, homes: Mapping[str, str], removed: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names that moved elsewhere or were removed.

    Args:
        module: The `__name__` of the module.
        since: The version in which they left.
        homes: The new place of each old name, as "new.module:name".
        removed: The reason and the way out for each name that no longer exists.
    """

    def look_up(name: str) -> Any:
        if name in (removed or {}):
            raise AttributeError(f"{module}.{name} was removed in attangent {since}: {removed[name]}")  # type: ignore[index]
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = homes[name].partition(":")
        warn_deprecated(f"{module}.{name}", f"{home}.{new}", since)
        return getattr(import_module(home), new)

    return look_up
