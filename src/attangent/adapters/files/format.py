"""The format of adapter files: names of files and tensors, and states as plain settings with tensors."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.adapters.states import AnchorState, AuthorsState, CalibratedState, LogMassState, State
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.attention.files import MAP, rebuild_map

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
CARD = "README.md"
FORMAT = "attangent adapter 1"
PEFT_TYPE = "ATTANGENT_NTK"
ROOT = "base_model.model."
"""Start of all tensor names in adapter files."""
TENSOR = ROOT + "{layer}.attangent_prefix.states.{tensor}"
"""Name of a state's tensor, as peft names it."""
LARGEST_STATE = 1 << 28
"""Limit of the numbers in a tensor and in all states of a file."""
_RAW: dict[str, type[PrefixState]] = {"raw": PrefixState, "authors": AuthorsState}
_CALIBRATED: dict[str, type[CalibratedState]] = {
    "calibrated": CalibratedState,
    "log-mass": LogMassState,
    "anchors": AnchorState,
}
_RAGGED = "ragged"
_KINDS = {kind: name for name, kind in (_RAW | _CALIBRATED | {_RAGGED: RaggedState}).items()}


def describe_state(state: Any) -> dict[str, Any]:
    """Return the kind of a state, the name and settings of its feature map, and the shapes of its tensors."""
    kind = _KINDS.get(type(state))
    if kind is None:
        raise AttangentError(
            f"cannot save a state of type {type(state).__name__}, expected one of "
            f"{', '.join(known.__name__ for known in _KINDS)}"
        )
    shapes = {name: list(tensor.shape) for name, tensor in state.state_dict().items()}
    settings = state.features.describe()
    if kind == _RAGGED:
        settings["sizes"] = list(state.sizes)
    return {"kind": kind, "map": state.features.name, "settings": settings, "shapes": shapes}


def blank_states(described: Mapping[str, Any]) -> dict[str, State]:
    """Return states of the described kinds and shapes by layer, to be filled."""
    shapes = {layer: _shapes_of(each) for layer, each in described.items()}
    count = sum(math.prod(shape) for of_layer in shapes.values() for shape in of_layer.values())
    if count > LARGEST_STATE:
        raise AttangentError(f"the states have {count:,} numbers, expected at most {LARGEST_STATE:,}")
    return {
        layer: rebuild_state(described[layer], {name: torch.ones(shape) for name, shape in of_layer.items()})
        for layer, of_layer in shapes.items()
    }


def _shapes_of(described: Any) -> dict[str, list[int]]:
    shapes = described.get("shapes") if isinstance(described, dict) else None
    if not isinstance(shapes, dict) or not all(_is_shape(shape) for shape in shapes.values()):
        raise AttangentError(f"the description of a state has the shapes {shapes!r}, expected lists of sizes")
    return shapes


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)


def rebuild_state(described: Any, tensors: dict[str, Tensor]) -> State:
    """Return the state with this description and exactly these tensors."""
    try:
        kind = described["kind"]
        if kind == _RAGGED:
            return _ragged(described["map"], described["settings"], dict(tensors))
        features = rebuild_map(described, tensors)
        rest = {key: t for key, t in tensors.items() if not key.startswith(MAP)}
        if kind in _RAW:
            return _raw(_RAW[kind], features, rest)
        return _calibrated(_CALIBRATED[kind], features, rest)
    except (LookupError, TypeError, RuntimeError, AttributeError) as error:
        raise AttangentError(f"the description or tensors of the state are incomplete: {error}") from None


def _raw(kind: type[PrefixState], features: Any, tensors: dict[str, Tensor]) -> PrefixState:
    mass = tensors.pop("mass")
    Z = (tensors.pop("Z_A"), tensors.pop("Z_B")) if "Z_A" in tensors else tensors.pop("Z_full")
    _check_empty(tensors)
    state = kind(features, Z, mass.abs() if features.positive else mass)
    state.mass.data.copy_(mass)
    return state


def _calibrated(kind: type[CalibratedState], features: Any, tensors: dict[str, Tensor]) -> CalibratedState:
    Z, mass, value_scale = (tensors.pop(name) for name in ("Z", "mass", "value_scale"))
    _check_empty(tensors)
    return kind(features, Z, mass, value_scale)


def _ragged(name: Any, settings: Any, tensors: dict[str, Tensor]) -> RaggedState:
    if name != Anchors.name or set(settings) != {"softcap", "sizes"}:
        raise AttangentError(
            f"a ragged state of the map {name!r} has the settings {settings!r}, expected "
            f"{Anchors.name!r} with softcap and sizes"
        )
    keys, Z, mass = (tensors.pop(key) for key in ("keys", "Z", "mass"))
    _check_empty(tensors)
    return RaggedState(keys, Z, mass, settings["sizes"], settings["softcap"])


def _check_empty(left: dict[str, Tensor]) -> None:
    if left:
        raise AttangentError(f"the state has unknown tensors {', '.join(sorted(left))}")
