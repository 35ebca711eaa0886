"""Adapter files read with suspicion: nothing in them is believed before it is checked against the model."""

import math
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.settings import read_json
from attangent.adapters.attaching import check_state_fits
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.describe import LARGEST_STATE, rebuild_state
from attangent.adapters.files.format import CONFIG, FORMAT, ROOT, WEIGHTS
from attangent.adapters.hub import check_model_name
from attangent.adapters.layers import Layer, attention_layers
from attangent.attention.files import check_path, check_regular

_KEYS = {
    *("peft_type", "format", "base_model_name_or_path", "base_model_class", "task_type", "inference_mode"),
    *("ntk", "states", "versions", "auto_mapping", "revision", "peft_version", "modules_to_save"),
    "pooling",
}
_STATE_NAME = re.compile(re.escape(ROOT) + r"(?P<layer>.+)\.attangent_prefix\.states\.(?P<tensor>.+)")
_LARGEST_CONFIG = 1 << 24


@dataclass(frozen=True)
class Adapter:
    """What a folder holds: the config, the states by layer name, the tensors of saved modules by name."""

    config: NTKConfig
    states: dict[str, Any]
    modules: dict[str, Tensor]


def read_adapter(base: nn.Module, folder: str | PathLike[str]) -> Adapter:
    """The adapter in the folder (or on the hub), checked against the model."""
    described_at, weights_at = _located(folder)
    described = _read_config(described_at)
    config = _ntk_config(described, described_at, base)
    _check_pooling(described, base)
    layers = {layer.name: layer for layer in attention_layers(base)}
    of_states, of_modules = _read_tensors(weights_at, base, layers, config)
    descriptions = described["states"]
    _check_layers(descriptions, of_states, layers)
    states = {name: _state(layers[name], descriptions[name], of_states[name]) for name in descriptions}
    return Adapter(config, states, of_modules)


def _located(folder: str | PathLike[str]) -> tuple[Path, Path]:
    check_path("folder", folder)
    path = Path(folder)
    if path.is_dir():
        return path / CONFIG, path / WEIGHTS
    text = str(folder)
    if "/" not in text:
        raise AttangentError(
            f"there is no folder {text}, expected one with {CONFIG} and {WEIGHTS}, or a hub id (owner/name)"
        )
    check_model_name(text, CONFIG)
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(text, CONFIG)), Path(hf_hub_download(text, WEIGHTS))
    except Exception as error:
        raise AttangentError(f"{text} is no folder here and could not be had from the hub: {error}") from None


def read_description(path: Path) -> dict[str, Any]:
    """What the adapter_config.json of an adapter of any kind says."""
    if not path.is_file():
        raise AttangentError(f"there is no file {path}: save an adapter there first")
    return read_json(path, _LARGEST_CONFIG)


def _read_config(path: Path) -> dict[str, Any]:
    described = read_description(path)
    found = described.get("format")
    if found != FORMAT:
        raise AttangentError(
            f"{path} has the format {found!r}, expected {FORMAT!r}: is it another adapter's?"
        )
    unknown = sorted(set(described) - _KEYS)
    if unknown:
        raise AttangentError(
            f"{path} has unknown keys {', '.join(unknown)}: was it written by a newer version?"
        )
    return described


def _ntk_config(described: dict[str, Any], path: Path, base: nn.Module) -> NTKConfig:
    """The settings; of the modules peft would save, those that the model has."""
    settings, states = described.get("ntk"), described.get("states")
    if not isinstance(settings, dict) or not isinstance(states, dict) or not states:
        raise AttangentError(f"{path} has no settings 'ntk' or no 'states', expected both")
    try:
        ends = {module.rpartition(".")[2] for module, _ in base.named_modules()}
        also = [name for name in described.get("modules_to_save") or [] if name in ends]
        names = dict.fromkeys([*settings.get("modules_to_save", []), *also])
        return NTKConfig.from_dict(settings | {"modules_to_save": list(names)})
    except (AttangentError, TypeError) as error:
        raise AttangentError(f"{path}: {error}") from None


def _check_pooling(described: dict[str, Any], base: nn.Module) -> None:
    """A classifier that was tuned on means over tokens needs a model that hands it these."""
    wanted, has = described.get("pooling", "first"), getattr(base, "attangent_pooling", "first")
    if wanted != has:
        raise AttangentError(
            f"the adapter's classifier reads tokens by pooling {wanted!r}, the model's pooling is {has!r}; "
            "load the folder with attangent.load_tuned"
        )


def _read_tensors(
    path: Path, base: nn.Module, layers: dict[str, Layer], config: NTKConfig
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    """The tensors of the states by layer, and those of saved modules; shapes are checked before contents."""
    from safetensors import SafetensorError, safe_open

    states: dict[str, dict[str, Tensor]] = {}
    modules: dict[str, Tensor] = {}
    check_regular(path, "save an adapter there first")
    try:
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                shape, found = tuple(file.get_slice(key).get_shape()), _STATE_NAME.fullmatch(key)
                if found is None:
                    name = _module_tensor(key, shape, base, config)
                    modules[name] = _numbers(key, file.get_tensor(key))
                else:
                    _check_size(found["layer"], found["tensor"], shape, layers)
                    states.setdefault(found["layer"], {})[found["tensor"]] = file.get_tensor(key)
    except (SafetensorError, OSError) as error:
        raise AttangentError(f"{path} is not a safetensors file: {error}") from None
    return states, modules


def _check_size(name: str, tensor: str, shape: tuple[int, ...], layers: dict[str, Layer]) -> None:
    if name not in layers:
        raise AttangentError(
            f"the adapter has a state for layer {name}, which the model does not have; it has "
            f"{', '.join(list(layers)[:3])}, ...: is it the model the adapter was made for?"
        )
    if math.prod(shape) > LARGEST_STATE:
        raise AttangentError(
            f"layer {name}: {tensor} has the shape {shape}, expected fewer than {LARGEST_STATE:,} numbers"
        )


def _module_tensor(key: str, shape: tuple[int, ...], base: nn.Module, config: NTKConfig) -> str:
    """The name in the model of a saved module's tensor."""
    name = key.removeprefix(ROOT)
    own = {**dict(base.named_parameters()), **dict(base.named_buffers())}
    asked = any(f".{name}".find(f".{module}.") >= 0 for module in config.modules_to_save)
    if not key.startswith(ROOT) or name not in own or not asked:
        raise AttangentError(f"the adapter has an unknown tensor {key}")
    if tuple(own[name].shape) != shape:
        raise AttangentError(
            f"{name} has the shape {shape} in the file, {tuple(own[name].shape)} in the model"
        )
    return name


def _numbers(key: str, tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise AttangentError(f"the adapter's tensor {key} has NaN or infinite entries")
    return tensor


def _check_layers(descriptions: dict[str, Any], tensors: dict[str, Any], layers: dict[str, Layer]) -> None:
    unknown = sorted(set(descriptions) - set(layers))
    if unknown:
        raise AttangentError(
            f"the adapter has states for {', '.join(unknown)}, layers the model does not have"
        )
    if set(descriptions) != set(tensors):
        differ = ", ".join(sorted(set(descriptions) ^ set(tensors)))
        raise AttangentError(f"config and tensors of the adapter speak of different layers: {differ}")


def _state(layer: Layer, described: Any, tensors: dict[str, Tensor]) -> Any:
    try:
        state = rebuild_state(described, tensors)
    except (AttangentError, RuntimeError, IndexError, AttributeError, ValueError) as error:
        raise AttangentError(f"layer {layer.name}: {error}") from None
    check_state_fits(layer, state)
    return state
