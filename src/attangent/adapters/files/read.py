"""Read adapter files; everything in them is checked against the model before it is used."""

import math
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.files import read_json
from attangent.adapters.attaching import check_state_fits
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.format import (
    CONFIG,
    FORMAT,
    LARGEST_STATE,
    ROOT,
    WEIGHTS,
    rebuild_state,
)
from attangent.adapters.hub import check_model_name
from attangent.adapters.layers import AttentionLayer, attention_layers, check_layers
from attangent.attention.files import check_path, open_tensors

_KEYS = {
    *("peft_type", "format", "base_model_name_or_path", "base_model_class", "task_type", "inference_mode"),
    *("ntk", "states", "versions", "auto_mapping", "revision", "peft_version", "modules_to_save"),
    "pooling",
}
_STATE_NAME = re.compile(re.escape(ROOT) + r"(?P<layer>.+)\.attangent_prefix\.states\.(?P<tensor>.+)")
_LARGEST_CONFIG = 1 << 24


@dataclass(frozen=True)
class StoredAdapter:
    """The content of an adapter folder.

    Attributes:
        config: The settings.
        states: States by layer name.
        modules: Tensors of saved modules by parameter name.
    """

    config: NTKConfig
    states: dict[str, Any]
    modules: dict[str, Tensor]


def read_adapter(base: nn.Module, folder: str | PathLike[str]) -> StoredAdapter:
    """Read an adapter from a folder or the Hub and check it against the model."""
    config_path, weights_path = _find_files(folder)
    described = _read_config(config_path)
    config = _ntk_config(described, config_path, base)
    _check_pooling(described, base)
    layers = {layer.name: layer for layer in attention_layers(base)}
    of_states, of_modules = _read_tensors(weights_path, base, layers, config)
    descriptions = described["states"]
    check_layers(base, config, descriptions)
    if set(descriptions) != set(of_states):
        differ = ", ".join(sorted(set(descriptions) ^ set(of_states)))
        raise AttangentError(f"only one of config and tensors of the adapter has these layers: {differ}")
    states = {name: _state(layers[name], descriptions[name], of_states[name]) for name in descriptions}
    return StoredAdapter(config, states, of_modules)


def _find_files(folder: str | PathLike[str]) -> tuple[Path, Path]:
    check_path("folder", folder)
    path = Path(folder)
    if path.is_dir():
        return path / CONFIG, path / WEIGHTS
    text = str(folder)
    if "/" not in text:
        raise AttangentError(
            f"there is no folder {text}; pass one with {CONFIG} and {WEIGHTS}, or a Hub id (owner/name)"
        )
    check_model_name(text, CONFIG)
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(text, CONFIG)), Path(hf_hub_download(text, WEIGHTS))
    except Exception as error:
        raise AttangentError(f"{text} is neither a local folder nor an adapter on the Hub: {error}") from None


def read_description(path: Path) -> dict[str, Any]:
    """Read the adapter_config.json of any adapter."""
    if not path.is_file():
        raise AttangentError(f"there is no file {path}: save an adapter there first")
    return read_json(path, _LARGEST_CONFIG)


def _read_config(path: Path) -> dict[str, Any]:
    described = read_description(path)
    version = described.get("format")
    if version != FORMAT:
        raise AttangentError(f"{path} has the format {version!r}, expected {FORMAT!r}, an attangent adapter")
    unknown = sorted(set(described) - _KEYS)
    if unknown:
        raise AttangentError(
            f"{path} has unknown keys {', '.join(unknown)}; update attangent if a newer version wrote it"
        )
    return described


def _ntk_config(described: dict[str, Any], path: Path, base: nn.Module) -> NTKConfig:
    """Return the settings; saved modules that peft lists count if the model has them."""
    settings = described.get("ntk")
    states = described.get("states")
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
    """Check that the model pools tokens as the adapter's classifier was tuned on them."""
    wanted = described.get("pooling", "first")
    actual = getattr(base, "attangent_pooling", "first")
    if wanted != actual:
        raise AttangentError(
            f"the adapter's classifier needs the pooling {wanted!r}, but the model has {actual!r}; "
            "load the folder with attangent.load_tuned"
        )


def _read_tensors(
    path: Path, base: nn.Module, layers: dict[str, AttentionLayer], config: NTKConfig
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    """Read the tensors of states by layer, and of saved modules; check shapes before reading contents."""
    states: dict[str, dict[str, Tensor]] = {}
    modules: dict[str, Tensor] = {}
    with open_tensors(path, "save an adapter there first") as file:
        for key in file.keys():  # noqa: SIM118
            shape = tuple(file.get_slice(key).get_shape())
            match = _STATE_NAME.fullmatch(key)
            if match is None:
                name = _module_tensor(key, shape, base, config)
                modules[name] = _finite(key, file.get_tensor(key))
            else:
                _check_size(match["layer"], match["tensor"], shape, layers)
                states.setdefault(match["layer"], {})[match["tensor"]] = file.get_tensor(key)
    return states, modules


def _check_size(name: str, tensor: str, shape: tuple[int, ...], layers: dict[str, AttentionLayer]) -> None:
    if name not in layers:
        raise AttangentError(
            f"the adapter has a state for layer {name}, which the model does not have; it has "
            f"{', '.join(list(layers)[:3])}, ...: load the model that the adapter was made for"
        )
    if math.prod(shape) > LARGEST_STATE:
        raise AttangentError(
            f"layer {name}: {tensor} has the shape {shape}, expected fewer than {LARGEST_STATE:,} numbers"
        )


def _module_tensor(key: str, shape: tuple[int, ...], base: nn.Module, config: NTKConfig) -> str:
    """Return the parameter name of a saved module's tensor."""
    name = key.removeprefix(ROOT)
    tensors = {**dict(base.named_parameters()), **dict(base.named_buffers())}
    listed = any(f".{name}".find(f".{module}.") >= 0 for module in config.modules_to_save)
    if not key.startswith(ROOT) or name not in tensors or not listed:
        raise AttangentError(f"the adapter has an unknown tensor {key}")
    expected = tuple(tensors[name].shape)
    if expected != shape:
        raise AttangentError(f"{name} has the shape {shape} in the file, but {expected} in the model")
    return name


def _finite(key: str, tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise AttangentError(f"the adapter's tensor {key} has NaN or infinite entries")
    return tensor


def _state(layer: AttentionLayer, described: Any, tensors: dict[str, Tensor]) -> Any:
    try:
        state = rebuild_state(described, tensors)
    except ValueError as error:
        raise AttangentError(f"layer {layer.name}: {error}") from None
    check_state_fits(layer, state)
    return state
