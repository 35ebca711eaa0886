"""Check the shapes in signatures while the tests run: the type checker of jaxtyping's import hook.

Only annotations that name a shape are checked. A wrong type of another kind may raise whatever Python raises,
and tests pass wrong values on purpose.
"""

from collections.abc import Callable
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def shapes(function: Any) -> Any:
    """Return the function with its shape annotations checked, and no others."""
    if isinstance(function, type) or not isinstance(getattr(function, "__annotations__", None), dict):
        return function
    named = {name: hint for name, hint in function.__annotations__.items() if _names_shape(hint)}
    if not named:
        return function
    everything = function.__annotations__
    function.__annotations__ = named
    result: Callable[..., Any] = _checked(function)
    result.__annotations__ = everything
    return result


def _names_shape(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_names_shape(part) for part in get_args(hint))
