"""Names that are going: they work for one more version and say what to use instead.

A name that is renamed or removed keeps working, with a warning, in all releases of the version that follows
(0.3.x for what is marked in 0.2.x), and goes after that.
"""

import functools
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar, cast

from attangent._core.errors import AttangentError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def warn_deprecated(what: str, instead: str, since: str, level: int = 3) -> None:
    """Say that `what` is going; `level` is as in warnings.warn, so that the line of the caller is shown."""
    warnings.warn(
        f"{what} is deprecated since attangent {since} and goes after the next version: use {instead}",
        FutureWarning,
        stacklevel=level,
    )


def renamed_arguments(since: str, **names: str) -> Callable[[_Function], _Function]:
    """A function that still takes arguments by their old names.

    >>> @renamed_arguments("0.2", told="progress")
    ... def walk(progress=None):
    ...     return progress
    >>> with warnings.catch_warnings(action="ignore"):
    ...     walk(told=3)  # else with a warning
    3
    """

    def wrap(function: _Function) -> _Function:
        @functools.wraps(function)
        def entry(*args: Any, **given: Any) -> Any:
            for old in [name for name in given if name in names]:
                new = names[old]
                if new in given:
                    raise AttangentError(f"both {old} and {new} are given; {old} is the old name of {new}")
                warn_deprecated(f"{function.__name__}({old}=)", f"{new}=", since)
                given[new] = given.pop(old)
            return function(*args, **given)

        return cast(_Function, entry)

    return wrap


def moved_names(module: str, since: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's __getattr__ for names that live elsewhere now: old name -> "new.module:name"."""

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = homes[name].partition(":")
        warn_deprecated(f"{module}.{name}", f"{home}.{new}", since)
        return getattr(import_module(home), new)

    return look_up
