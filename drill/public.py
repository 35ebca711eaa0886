"""What the fuzzer calls: every public function, constructor and method, read from the public lists."""

import enum
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

PLACES = (
    *("attangent", "attangent.attention", "attangent.attention.features", "attangent.adapters"),
    *("attangent.audit", "attangent.papers.p2_softmax.diffusion", "attangent.forecast", "attangent.icl"),
    *("attangent.kernels", "attangent.kernels.modules", "attangent.stages"),
)
_NOT_OURS = ("set_fit_request", "set_predict_request", "set_score_request", "extra_repr")
"""Methods that scikit-learn and torch put on classes of ours."""


class Entry(NamedTuple):
    """A public callable; `owner` is the class whose instance it needs, None for all others."""

    name: str
    function: Callable[..., Any]
    owner: type | None = None


def entries() -> list[Entry]:
    """Every public entry once, in a fixed order."""
    found: dict[str, Entry] = {}
    for place in PLACES:
        module = import_module(place)
        for name in module.__all__:
            thing = getattr(module, name)
            home = getattr(thing, "__module__", place).removeprefix("attangent.")
            for entry in _of(f"{home}.{name}", thing):
                found.setdefault(entry.name, entry)
    return sorted(found.values())


def _of(name: str, thing: Any) -> Iterator[Entry]:
    if inspect.isclass(thing):
        if _is_called(thing):
            yield Entry(name, thing)
            yield from _methods(name, thing)
    elif inspect.isfunction(thing):
        yield Entry(name, thing)


def _is_called(kind: type) -> bool:
    abstract = inspect.isabstract(kind) or getattr(kind, "_is_protocol", False)
    abstract = abstract or kind.__name__ in ("FeatureMap", "Exponential")
    return not abstract and not issubclass(kind, BaseException | enum.Enum)


def _methods(name: str, kind: type) -> Iterator[Entry]:
    for own, member in inspect.getmembers_static(kind):
        hidden = own.startswith("_") or own in _NOT_OURS or own in getattr(kind, "UNGUARDED", ())
        if hidden or not _is_ours(kind, own):
            continue
        if isinstance(member, classmethod | staticmethod):
            yield Entry(f"{name}.{own}", getattr(kind, own))
        elif inspect.isfunction(member):
            yield Entry(f"{name}.{own}", member, kind)


def _is_ours(kind: type, name: str) -> bool:
    home = next(one for one in kind.__mro__ if name in vars(one))
    return home.__module__.startswith("attangent")
