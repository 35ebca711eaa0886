"""Parts that installed packages add by entry point: forecasters, compression methods and tuning methods."""

import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from attangent._core.checks import check_choice

Part = TypeVar("Part")


@cache
def installed_parts(group: str, base: type[Part]) -> tuple[Part, ...]:
    """Return one object of each class that installed packages list in a group of entry points.

    An entry point that cannot be used is left out with a warning: the other parts still work.

    Args:
        group: Name of the group.
        base: The class that all of them extend.
    """
    points = sorted(entry_points(group=group), key=lambda point: point.name)
    parts = [_part(point, base) for point in points]
    return tuple(part for part in parts if part is not None)


def method_of(name: Any, ours: Mapping[str, Part], group: str, base: type[Part]) -> Part:
    """Return the method of this name, ours or one that an installed package adds; ours come first.

    Args:
        name: The name that a user gave.
        ours: The methods of this package by name.
        group: Name of the group of entry points.
        base: The class that all methods extend.

    Raises:
        AttangentError: If there is no such method.
    """
    if isinstance(name, str) and name in ours:
        return ours[name]
    known = {part.name: part for part in installed_parts(group, base)} | dict(ours)
    return known[check_choice("method", name, tuple(known))]


def _part(point: EntryPoint, base: type[Part]) -> Part | None:
    try:
        part = point.load()()
        if isinstance(part, base):
            return part
        reason = f"it is no {base.__name__}"
    except Exception as error:  # somebody else's code may fail in any way
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(f"{point.value} is not used as one of {point.group}: {reason}", stacklevel=2)
    return None
