"""The kind of value that an annotation declares: what it admits, what it converts, how it is named."""

import math
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from numbers import Integral, Rational, Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

_LARGEST = 1 << 63
_MOST = 10**7
"""Entries of an array that are made into a list where one is declared."""


class Kind(NamedTuple):
    """What an argument may be.

    `exact` are types that are admitted without a further look. `convert` makes the kind out of something near
    it, or raises TypeError or ValueError.
    """

    words: str
    exact: frozenset[type]
    admits: Callable[[Any], bool]
    convert: Callable[[Any], Any] | None = None


def kind_of(annotation: Any, arrays: bool) -> Kind | None:
    """The kind an annotation declares, None where it says nothing that can be checked.

    With `arrays` whatever holds numbers is converted where a tensor is declared.
    """
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return _union([kind_of(part, arrays) for part in get_args(annotation)])
    if origin is Literal:
        return _choice(get_args(annotation))
    if (origin or annotation) in _PLAIN:
        return _PLAIN[origin or annotation]
    if (origin or annotation) in _array_kinds():
        return _array_kinds()[origin or annotation][arrays]
    return _container(annotation, origin, arrays) if origin else _class(annotation)


def describe(value: Any) -> str:
    """Short values as they are, tensors by dtype and shape, anything else by its type."""
    if is_tensor(value):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)} on {value.device}"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, str | int | float):
        shown = repr(value)
        return shown if len(shown) <= 60 else f"{shown[:50]}... ({type(value).__name__})"
    return type(value).__name__


def is_tensor(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _is_array(value: Any) -> bool:
    return "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray)


def _is_array_type(kind: type) -> bool:
    """Whether it is numpy's array, whose first parameter is its shape and not the kind of its entries."""
    return "numpy" in sys.modules and kind is sys.modules["numpy"].ndarray


def _array_kinds() -> dict[Any, tuple[Kind, Kind]]:
    """Kinds of tensors and arrays, by what is annotated: none as long as nobody has imported torch."""
    if "torch" not in sys.modules:
        return {}
    from attangent._core.arrays import KINDS

    return KINDS


def _whole(value: Any) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and -_LARGEST <= int(value) < _LARGEST


def _number(value: Any) -> bool:
    """Numbers that torch and numpy calculate with as they are."""
    if isinstance(value, int):
        return value.bit_length() < _LARGEST.bit_length()
    return isinstance(value, Real) and (isinstance(value, Integral) or not isinstance(value, Rational))


def _as_float(value: Any) -> float:
    if not isinstance(value, Real):
        raise TypeError
    return float(value)


def _switch(value: Any) -> bool:
    return isinstance(value, int) or type(value).__name__ in ("bool", "bool_")  # numpy's own


def _place(value: Any) -> bool:
    return isinstance(value, str | PathLike) and "\0" not in str(value)


def _as_path(value: Any) -> Path:
    if not _place(value):
        raise TypeError
    return Path(value)


_NONE = Kind("None", frozenset({type(None)}), lambda value: value is None)
_PLACE = Kind("a path", frozenset(), _place)
"""A path in the hands of somebody who takes texts as well."""
_PATH = Kind("a path", frozenset(), lambda value: isinstance(value, Path) and _place(value), _as_path)
_PLAIN: dict[Any, Kind | None] = {
    Any: None,
    object: None,
    None: _NONE,
    type(None): _NONE,
    bool: Kind("True or False", frozenset({bool}), _switch),
    int: Kind("a whole number of at most 64 bits", frozenset(), _whole),
    float: Kind("a number", frozenset({float}), _number, _as_float),
    str: Kind("a text", frozenset({str}), lambda value: isinstance(value, str)),
    Callable: Kind("a function", frozenset(), callable),
    Path: _PATH,
    PathLike: _PLACE,
}


def _union(kinds: list[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    asked = _with_texts_as_paths(known)
    ways = [kind.convert for kind in asked if kind.convert]
    return Kind(
        " or ".join(dict.fromkeys(kind.words for kind in known)),
        frozenset().union(*(kind.exact for kind in asked)),
        lambda value: any(kind.admits(value) for kind in asked),
        (lambda value: _first(ways, value)) if ways else None,
    )


def _with_texts_as_paths(kinds: list[Kind]) -> list[Kind]:
    """Of a text and a path the path alone, which asks for more and takes texts as they are."""
    if _PLAIN[str] not in kinds or not {_PATH, _PLACE} & set(kinds):
        return kinds
    return [_PLACE, *(kind for kind in kinds if kind not in (_PLAIN[str], _PATH, _PLACE))]


def _first(ways: list[Callable[[Any], Any]], value: Any) -> Any:
    for way in ways[:-1]:
        try:
            return way(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return ways[-1](value)


def _choice(options: tuple[Any, ...]) -> Kind:
    return Kind(
        f"one of {', '.join(map(str, options))}",
        frozenset(),
        lambda value: (value is None or isinstance(value, str | int)) and value in options,
    )


def _container(annotation: Any, origin: Any, arrays: bool) -> Kind | None:
    parts = get_args(annotation)
    if origin in (Sequence, list, tuple):
        return _sequence(origin, parts, arrays)
    if origin in (Mapping, dict):
        return _mapping(origin, kind_of(parts[0], arrays), kind_of(parts[1], arrays))
    if isinstance(origin, type) and issubclass(origin, Iterable) and not _is_array_type(origin):
        return _iterable(kind_of(parts[0], arrays) if parts else None, parts == (str,))
    return _class(origin)


def _many(value: Any) -> bool:
    none = isinstance(value, str | bytes) or is_tensor(value) or (_is_array(value) and value.ndim == 0)
    return isinstance(value, Iterable) and not none


def _iterable(part: Kind | None, texts: bool) -> Kind:
    """What is there already is looked at; what is made on the way is not touched before its time."""

    def admits(value: Any) -> bool:
        if texts and isinstance(value, str):
            return True
        if not _many(value) or part is None:
            return _many(value)
        made = isinstance(value, list | tuple | set | frozenset | dict) or _is_array(value)
        return not made or all(part.admits(one) for one in value)

    return Kind(f"a list, every entry {part.words}" if part else "a list", frozenset(), admits)


def _sequence(origin: Any, parts: tuple[Any, ...], arrays: bool) -> Kind:
    fixed = origin is tuple and parts[-1:] != (...,)
    kinds = [kind_of(part, arrays) for part in parts if part is not ...]
    wanted = (tuple, list) if origin is tuple else Sequence
    inner = " and ".join(dict.fromkeys(kind.words if kind else "anything" for kind in kinds))

    def paired(value: Any) -> list[tuple[Kind | None, Any]] | None:
        """Every entry with its kind; None for what is no list, or of another length."""
        if not isinstance(value, wanted) or isinstance(value, str | bytes):
            return None
        if fixed and len(value) != len(kinds):
            return None
        return list(zip(kinds if fixed else kinds * len(value), value, strict=True))

    def admits(value: Any) -> bool:
        pairs = paired(value)
        return pairs is not None and all(kind is None or kind.admits(part) for kind, part in pairs)

    def convert(value: Any) -> Any:
        if hasattr(value, "tolist") and math.prod(value.shape) <= _MOST:
            value = value.tolist()
        pairs = paired(value)
        if pairs is None:
            raise TypeError
        return [_entry(kind, part) for kind, part in pairs]

    return Kind(f"a list, every entry {inner}", frozenset(), admits, convert)


def _entry(kind: Kind | None, value: Any) -> Any:
    if kind is None or kind.admits(value):
        return value
    if kind.convert is None:
        raise TypeError
    return kind.convert(value)


def _mapping(origin: Any, key: Kind | None, entry: Kind | None) -> Kind:
    def admits(value: Any) -> bool:
        return isinstance(value, origin) and all(
            (key is None or key.admits(name)) and (entry is None or entry.admits(content))
            for name, content in value.items()
        )

    words = f"a {origin.__name__.lower()} from {key.words if key else 'names'}"
    return Kind(f"{words} to {entry.words if entry else 'values'}", frozenset(), admits)


@cache
def _class(annotation: Any) -> Kind | None:
    if not isinstance(annotation, type):
        return None
    if getattr(annotation, "_is_protocol", False):
        return _protocol(annotation)
    return Kind(_named(annotation), frozenset({annotation}), lambda value: isinstance(value, annotation))


def _protocol(protocol: type) -> Kind:
    """Anything that has some of what the protocol asks for: an entry need not use all of it.

    What was seen of a type holds for the next of it.
    """
    members = [name for name in vars(protocol) if not name.startswith("_")]
    members += [name for name in getattr(protocol, "__annotations__", {}) if name not in members]
    seen: set[type] = set()

    def admits(value: Any) -> bool:
        if type(value) in seen:
            return True
        fits = not isinstance(value, type) and any(_has(value, name) for name in members)
        if fits:
            seen.add(type(value))
        return fits

    return Kind(f"{_named(protocol)} (something with {' or '.join(members)})", frozenset(), admits)


def _has(value: Any, name: str) -> bool:
    return hasattr(type(value), name) or hasattr(value, name)


def _named(kind: type) -> str:
    name = kind.__name__
    vowels = "AEFHILMNORSX" if name[:2].isupper() else "AEIOU"  # an NTKConfig: letters are spelt out
    return f"{'an' if name[0] in vowels else 'a'} {name}"
