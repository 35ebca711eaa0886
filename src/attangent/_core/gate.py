"""The gate at every public entry: arguments of the kinds that the annotations declare, or an AttangentError.

A room calls `guard(globals())` in its `__init__`, so that a name is guarded from the day it is public. What
the annotations cannot say (shapes, ranges, what fits together) is checked behind the gate; an exception
that comes from there is ours, and stays what it is.
"""

import functools
import inspect
import operator
import sys
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar, cast, get_args

from attangent._core.errors import AttangentError, describe_os_error
from attangent._core.kinds import Kind, describe, is_tensor, kind_of

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "__attangent_guarded__"
_OUT_OF_MEMORY = ("allocate memory", "unable to allocate", "out of memory", "storage size", "numel: integer")
"""Words of the allocators, and of torch about sizes beyond any memory."""


class _Plan(NamedTuple):
    """The kinds of a function's arguments by position and by name."""

    names: tuple[str, ...]
    kinds: tuple[Kind | None, ...]
    named: dict[str, Kind | None]


def guard(room: dict[str, Any]) -> None:
    """Put the gate before the public functions and methods of a room; tensors have to be tensors."""
    _guard(room, arrays=False)


def guard_arrays(room: dict[str, Any]) -> None:
    """As `guard`; arrays and lists of numbers are converted where a tensor is declared."""
    _guard(room, arrays=True)


def checked(function: _Function, arrays: bool = False, owner: type | None = None) -> _Function:
    """`function` behind the gate; the annotations are read when it is first called.

    `owner` is the class of a method: what `Self` stands for.
    """
    plan: _Plan | None = None
    compiling = _compiling()

    @functools.wraps(function)
    def entry(*args: Any, **named: Any) -> Any:
        if compiling():
            return function(*args, **named)
        nonlocal plan
        if plan is None:
            plan = _plan(function, arrays, owner)
        for kind, value in zip(plan.kinds, args, strict=False):
            if kind is not None and type(value) not in kind.exact and not kind.admits(value):
                args = _admitted(plan, args)
                break
        for name, value in named.items():
            kind = plan.named.get(name)
            if kind is not None and type(value) not in kind.exact and not kind.admits(value):
                named[name] = _converted(name, kind, value)
        try:
            return function(*args, **named)
        except AttangentError:
            raise
        except OSError as error:
            raise AttangentError(f"{function.__qualname__}: {describe_os_error(error)}") from error
        except Exception as error:
            _refuse_tensors(plan, args, named, error)
            _refuse_size(function, error)
            raise

    setattr(entry, _MARK, True)
    return cast(_Function, entry)


def is_guarded(thing: Any) -> bool:
    """Whether a function stands behind the gate; `__wrapped__` is what is behind it."""
    return hasattr(thing, _MARK)


def _compiling() -> Callable[[], bool]:
    """Whether torch.compile is tracing, which the gate stays out of; never in a room without torch."""
    return sys.modules["torch"].compiler.is_compiling if "torch" in sys.modules else lambda: False


def _guard(room: dict[str, Any], arrays: bool) -> None:
    for name in room["__all__"]:
        thing = room.get(name)
        if inspect.isclass(thing):
            _guard_class(thing, arrays)
        elif inspect.isfunction(thing) and not is_guarded(thing) and _has_arguments(thing):
            room[name] = checked(thing, arrays)
            home = sys.modules[thing.__module__]
            if getattr(home, name, None) is thing:
                setattr(home, name, room[name])


def _guard_class(kind: type, arrays: bool) -> None:
    """Guard the constructor and the public methods of a class, and those it has from classes of ours."""
    if issubclass(kind, BaseException | tuple) or getattr(kind, "_is_protocol", False):
        return
    unguarded = getattr(kind, "UNGUARDED", ())
    for home in kind.__mro__:
        if home.__module__.partition(".")[0] != kind.__module__.partition(".")[0]:
            continue
        for name, member in list(vars(home).items()):
            if name == "__init__" or (not name.startswith("_") and name not in unguarded):
                _guard_member(home, name, member, arrays)


def _guard_member(home: type, name: str, member: Any, arrays: bool) -> None:
    wrap = type(member) if isinstance(member, classmethod | staticmethod) else None
    function = member.__func__ if wrap else member
    if not inspect.isfunction(function) or is_guarded(function) or not _has_arguments(function):
        return
    guarded = checked(function, arrays, home)
    setattr(home, name, wrap(guarded) if wrap else guarded)


def _has_arguments(function: Any) -> bool:
    return any(name != "return" for name in function.__annotations__)


def _plan(function: Callable[..., Any], arrays: bool, owner: type | None) -> _Plan:
    hints = {name: _without_self(hint, owner) for name, hint in _hints(function).items()}
    names: list[str] = []
    named: dict[str, Kind | None] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        named[name] = kind_of(hints.get(name, Any), arrays)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(name)
    return _Plan(tuple(names), tuple(named[name] for name in names), named)


def _without_self(hint: Any, owner: type | None) -> Any:
    """The annotation with the class in the place of Self, also beside None."""
    if owner is not None and (hint is Self or Self in get_args(hint)):
        parts = [owner if part is Self else part for part in get_args(hint)]
        return functools.reduce(operator.or_, parts) if parts else owner
    return hint


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations; one that names what only type checkers import says nothing here."""
    try:
        return typing.get_type_hints(function)
    except NameError:
        return {name: hint for name, hint in function.__annotations__.items() if not isinstance(hint, str)}


def _admitted(plan: _Plan, args: tuple[Any, ...]) -> tuple[Any, ...]:
    passed = [
        value if kind is None or kind.admits(value) else _converted(name, kind, value)
        for name, kind, value in zip(plan.names, plan.kinds, args, strict=False)
    ]
    return (*passed, *args[len(passed) :])


def _converted(name: str, kind: Kind, value: Any) -> Any:
    try:
        if kind.convert is not None:
            return kind.convert(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise AttangentError(f"{name} is {describe(value)}, expected {kind.words}")


def _refuse_tensors(plan: _Plan, args: tuple[Any, ...], named: dict[str, Any], error: Exception) -> None:
    """Name the argument that cannot be calculated with. It is looked for only once something has failed:
    asking every tensor beforehand would cost more than the rest of the gate."""
    for name, value in (*zip(plan.names, args, strict=False), *named.items()):
        if is_tensor(value) and not _has_numbers(value):
            raise AttangentError(
                f"{name} is {describe(value)}, {value.layout}, expected a dense tensor with numbers in it, "
                "of an ordinary floating point or whole number type"
            ) from error


def _has_numbers(tensor: Any) -> bool:
    from attangent._core.arrays import has_numbers

    return has_numbers(tensor)


def _refuse_size(function: Callable[..., Any], error: BaseException) -> None:
    """A size that no memory holds is the caller's to change; other errors stay what they are."""
    text = str(error).lower()
    if isinstance(error, MemoryError) or any(words in text for words in _OUT_OF_MEMORY):
        raise AttangentError(
            f"{function.__qualname__} needs more memory than there is: give it smaller sizes or less data"
        ) from error
