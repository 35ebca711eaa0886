"""States as plain words and tensors, and back."""

import math
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.adapters.states import AnchorState, AuthorsState, CalibratedState, LogMassState, State
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import BY_NAME, Anchors

LARGEST_STATE = 1 << 28
"""More numbers than any tensor of a state has."""
_MAP = "features."
_RAW: dict[str, type[PrefixState]] = {"raw": PrefixState, "authors": AuthorsState}
_CALIBRATED: dict[str, type[CalibratedState]] = {
    "calibrated": CalibratedState,
    "log-mass": LogMassState,
    "anchors": AnchorState,
}
_RAGGED = "ragged"
_KINDS = {kind: name for name, kind in (_RAW | _CALIBRATED | {_RAGGED: RaggedState}).items()}


def describe_state(state: Any) -> dict[str, Any]:
    """The kind of the state, and the name and settings of its map."""
    kind = _KINDS.get(type(state))
    if kind is None:
        raise AttangentError(
            f"a state is {type(state).__name__}, expected one of "
            f"{', '.join(known.__name__ for known in _KINDS)} to be saved"
        )
    shapes = {name: list(tensor.shape) for name, tensor in state.state_dict().items()}
    settings = state.features.describe()
    if kind == _RAGGED:
        settings["sizes"] = list(state.sizes)
    return {"kind": kind, "map": state.features.name, "settings": settings, "shapes": shapes}


def blank_state(described: Any) -> State:
    """A state of the described kind and shapes, to be filled."""
    shapes = described.get("shapes") if isinstance(described, dict) else None
    if not isinstance(shapes, dict) or not all(_is_shape(shape) for shape in shapes.values()):
        raise AttangentError(f"the description of a state has the shapes {shapes!r}, expected lists of sizes")
    return rebuild_state(described, {name: torch.ones(shape) for name, shape in shapes.items()})


def check_together(described: Any) -> None:
    """Refuse descriptions of states that together would take more memory than any adapter does."""
    shapes = [shape for each in described if isinstance(each, dict) for shape in _shapes_of(each)]
    count = sum(math.prod(shape) for shape in shapes)
    if count > LARGEST_STATE:
        raise AttangentError(
            f"the states have {count:,} numbers together, expected at most {LARGEST_STATE:,}"
        )


def _shapes_of(described: dict[str, Any]) -> list[list[int]]:
    shapes = described.get("shapes")
    return [shape for shape in shapes.values() if _is_shape(shape)] if isinstance(shapes, dict) else []


def _is_shape(shape: Any) -> bool:
    sizes = isinstance(shape, list) and all(isinstance(size, int) and size > 0 for size in shape)
    return sizes and math.prod(shape) <= LARGEST_STATE


def rebuild_state(described: Any, tensors: dict[str, Tensor]) -> State:
    """The state that `describe_state` and its `state_dict` speak of; all of it, and nothing else."""
    try:
        kind, name, settings = described["kind"], described["map"], described["settings"]
        if kind == _RAGGED:
            return _ragged(name, settings, dict(tensors))
        of_map = {name.removeprefix(_MAP): t for name, t in tensors.items() if name.startswith(_MAP)}
        features = BY_NAME[name].rebuild(settings, of_map)
        own = {name: t for name, t in tensors.items() if not name.startswith(_MAP)}
        return (
            _raw(_RAW[kind], features, own) if kind in _RAW else _calibrated(_CALIBRATED[kind], features, own)
        )
    except (KeyError, TypeError) as error:
        raise AttangentError(f"the description or tensors of the state are not whole: {error}") from None


def _raw(kind: type[PrefixState], features: Any, own: dict[str, Tensor]) -> PrefixState:
    mass = own.pop("mass")
    Z = (own.pop("Z_A"), own.pop("Z_B")) if "Z_A" in own else own.pop("Z_full")
    _check_empty(own)
    state = kind(features, Z, mass.abs() if features.positive else mass)
    state.mass.data.copy_(mass)
    return state


def _calibrated(kind: type[CalibratedState], features: Any, own: dict[str, Tensor]) -> CalibratedState:
    parts = [own.pop(name) for name in ("Z", "mass", "value_scale")]
    _check_empty(own)
    return kind(features, *parts)


def _ragged(name: Any, settings: Any, own: dict[str, Tensor]) -> RaggedState:
    if name != Anchors.name or set(settings) != {"softcap", "sizes"}:
        raise AttangentError(
            f"a ragged state of the map {name!r} has the settings {settings!r}, expected "
            f"{Anchors.name!r} with softcap and sizes"
        )
    keys, Z, mass = (own.pop(part) for part in ("keys", "Z", "mass"))
    _check_empty(own)
    return RaggedState(keys, Z, mass, settings["sizes"], settings["softcap"])


def _check_empty(left: dict[str, Tensor]) -> None:
    if left:
        raise AttangentError(f"the state has unknown tensors {', '.join(sorted(left))}")
