"""Deprecated names: they work for one more version and warn with their replacement.

A name that is renamed or removed in 0.2.x keeps working, with a warning, in all releases of 0.3.x.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
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


_SINCE = "0.2"
_PACKAGE = "attangent."
MOVED = {
    "attention.fast": "papers.p1_prefix.fast_attention",
    "audit.papers": "papers",
    "diffusion": "papers.p2_softmax.diffusion",
    "forecast.outlook": "forecast.pipeline",
    "forecast.theory": "papers.p5_forecasting.theory",
    "icl.attention": "papers.p4_in_context.one_layer.attention",
    "icl.transformer": "papers.p4_in_context.transformer",
    "kernels.guarantee": "papers.p1_prefix.network",
    "stages.facts": "papers.p3_two_stage.facts",
    "stages.facts.typed_facts": "papers.p3_two_stage.facts.corpora",
    "stages.theory": "papers.p3_two_stage.theory",
    "stages.theory.constructions": "papers.p3_two_stage.theory.floor",
    "stages.theory.search": "papers.p3_two_stage.theory.floor",
    "tuning.compare": "papers.p1_prefix.head_to_head",
}
"""New names of old modules; their submodules moved with them."""
RENAMED = {
    "diffusion": {"Adam": "AdamDescent", "Course": "TrainingHistory", "Estimate": "SampleMean"},
}
"""New names of things that were renamed on the way, by old module."""
REMOVED = {
    "tuning.data.layouts": "the SuperGLUE layouts served a comparison that was removed; use plain columns",
    "tuning.recipe": "a run has no search and no validation settings any more",
    "tuning.planning": "a plan cost five runs and its interval missed on a fresh task; compare two real runs",
}
"""Why a module was removed, and what to do instead."""


class MovedModules:
    """A finder for `sys.meta_path`, asked after all others: it only sees modules that do not exist."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for an old module name; None for all other names."""
        old = fullname.removeprefix(_PACKAGE)
        if old == fullname:
            return None
        if old in REMOVED:
            raise ModuleNotFoundError(
                f"{fullname} was removed in attangent {_SINCE}: {REMOVED[old]}", name=fullname
            )
        new = _home(old)
        if new is None:
            return None
        return ModuleSpec(fullname, _Forwarding(_PACKAGE + new), is_package=True)  # type: ignore[arg-type]


class _Forwarding:
    """A loader that fills a module with nothing but a `__getattr__` to its new home."""

    def __init__(self, home: str):
        self.home = home

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        home = import_module(self.home)
        warn_deprecated(f"the module {module.__name__}", self.home, _SINCE)
        renamed = RENAMED.get(module.__name__.removeprefix(_PACKAGE), {})

        def look_up(name: str) -> Any:
            return getattr(home, renamed.get(name, name))

        vars(module)["__getattr__"] = look_up


def _home(old: str) -> str | None:
    """Return the new name of an old module, found by its longest listed parent."""
    parent, rest = old, ""
    while parent not in MOVED:
        parent, _, last = parent.rpartition(".")
        if not parent:
            return None
        rest = f".{last}{rest}"
    return MOVED[parent] + rest


def forward_moved_modules() -> None:
    """Make old module names importable; repeated calls change nothing."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())  # type: ignore[arg-type]
