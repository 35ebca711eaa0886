"""A compressed prompt as an ordinary KV cache, and the folder that holds it.

vLLM reads the folder in its own environment, so this module needs nothing but torch and safetensors.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_names
from attangent._core.errors import AttangentError
from attangent._core.files import read_json, real_folder, settings_of, write_json, writing

DESCRIPTION = "prefix.json"
TENSORS = "prefix.safetensors"
FORMAT = "attangent prefix 1"
_LARGEST_TENSOR = 1 << 28
_MOST_LAYERS = 1024
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_DIGITS = 12


@dataclass(frozen=True)
class Layer:
    """Keys and values (size, heads, d) of one layer at positions 0 to size - 1.

    Attributes:
        keys: The keys, rotated.
        values: The values.
    """

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Marker:
    """The tokens that stand for a prefix in a request.

    An engine finds a prefix by its tokens. They contain its digest, so that no other text has the same ones
    and an engine's own prefix cache never confuses two prefixes.

    Attributes:
        ids: One token per position of the prefix.
        messages: The chat messages that the model's template turns into these tokens; none for plain text.
    """

    ids: list[int]
    messages: list[dict[str, str]]


@dataclass(frozen=True)
class EnginePrefix:
    """A compressed prompt that an engine can hold.

    Attributes:
        name: Name of the prefix.
        marker: The tokens that stand for it.
        layers: Keys and values by layer.
        model: Name of the model.
        prompt_tokens: Tokens of the prompt before compression.
    """

    name: str
    marker: Marker
    layers: tuple[Layer, ...]
    model: str
    prompt_tokens: int

    @property
    def size(self) -> int:
        """Return the number of tokens that the engine holds."""
        return len(self.marker.ids)

    @cached_property
    def digest(self) -> str:
        """Return the digest of keys and values."""
        return digest_of(self.layers)


def digest_of(layers: Sequence[Layer]) -> str:
    """Return a digest of the keys and values of all layers."""
    state = hashlib.sha256()
    for layer in layers:
        for tensor in (layer.keys, layer.values):
            state.update(tensor.float().contiguous().numpy().tobytes())
    return state.hexdigest()[:_DIGITS]


def check_name(name: str) -> str:
    """Check that a prefix name has only letters, digits, dots, dashes and underscores."""
    if not _NAME.fullmatch(name) or set(name) == {"."}:
        raise AttangentError(
            f"the name {name!r} must have 1 to 64 letters, digits, dots, dashes or underscores; pass --name"
        )
    return name


@dataclass(frozen=True)
class _Description:
    """The content of prefix.json; `answers` holds what `--server` measured, by engine."""

    format: str
    name: str
    size: int
    layers: int
    model: str
    prompt_tokens: int
    digest: str
    marker: Marker
    answers: dict[str, Any]


def write_prefix(
    prefix: EnginePrefix, folder: str | PathLike[str], answers: Mapping[str, Any] | None = None
) -> Path:
    """Write a prefix as prefix.safetensors and prefix.json.

    Args:
        prefix: The prefix.
        folder: Folder to write to; it is created if missing.
        answers: How many answers the engine kept, if that was measured.

    Returns:
        The folder.
    """
    from safetensors.torch import save_file

    target = real_folder(Path(folder))
    tensors = {
        f"{kind}.{index}": getattr(layer, kind).float().contiguous()
        for index, layer in enumerate(prefix.layers)
        for kind in ("keys", "values")
    }
    with writing(target / TENSORS) as temporary:
        save_file(tensors, temporary)
    description = _Description(
        FORMAT,
        prefix.name,
        prefix.size,
        len(prefix.layers),
        prefix.model,
        prefix.prompt_tokens,
        prefix.digest,
        prefix.marker,
        dict(answers or {}),
    )
    write_json(target / DESCRIPTION, asdict(description))
    return target


def read_prefix(folder: str | PathLike[str]) -> EnginePrefix:
    """Read and check a folder that `write_prefix` wrote.

    Args:
        folder: The folder.

    Returns:
        The prefix.

    Raises:
        AttangentError: If a file is missing, damaged or does not fit the other.
    """
    source = Path(folder)
    described = _read_description(source / DESCRIPTION)
    layers = _read_layers(source / TENSORS, described)
    if digest_of(layers) != described.digest:
        raise AttangentError(f"{source / TENSORS} does not belong to {source / DESCRIPTION}; export it again")
    return EnginePrefix(described.name, described.marker, layers, described.model, described.prompt_tokens)


def read_prefixes(folders: Sequence[str]) -> dict[str, EnginePrefix]:
    """Return the prefixes of folders by name.

    Args:
        folders: Folders that `attangent export --to vllm` wrote.

    Returns:
        The prefixes.

    Raises:
        AttangentError: If there are none, a folder is damaged, or two prefixes have the same name.
    """
    if isinstance(folders, str) or not folders:
        raise AttangentError(
            'kv_connector_extra_config must list folders, such as {"prefixes": ["handbook/vllm"]}'
        )
    prefixes: dict[str, EnginePrefix] = {}
    for folder in folders:
        prefix = read_prefix(folder)
        if prefix.name in prefixes:
            raise AttangentError(f"two prefixes have the name {prefix.name!r}; export one with --name")
        prefixes[prefix.name] = prefix
    return prefixes


def _read_description(path: Path) -> _Description:
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise AttangentError(f"{path} has the format {content.get('format')!r}, expected {FORMAT!r}")
    described = settings_of(_Description, content, str(path))
    check_name(described.name)
    ids = described.marker.ids
    if not 0 < described.layers <= _MOST_LAYERS or not 0 < len(ids) == described.size or min(ids) < 0:
        raise AttangentError(f"{path} is damaged: its sizes do not agree; export the prompt again")
    return described


def _read_layers(path: Path, described: _Description) -> tuple[Layer, ...]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise AttangentError(f"there is no file {path}; export the prompt again")
    indices = range(described.layers)
    names = [f"{kind}.{index}" for index in indices for kind in ("keys", "values")]
    try:
        with safe_open(path, framework="pt") as file:
            check_names(file.keys(), names, str(path))
            for name in names:
                _check_tensor(file.get_slice(name), described.size, f"{name} in {path}")
            return tuple(
                Layer(file.get_tensor(f"keys.{index}"), file.get_tensor(f"values.{index}"))
                for index in indices
            )
    except (SafetensorError, OSError) as error:
        raise AttangentError(f"cannot read {path}: {error}; export the prompt again") from None


def _check_tensor(stored: Any, size: int, name: str) -> None:
    """Check the shape and dtype of a stored tensor before its content is read."""
    shape = tuple(stored.get_shape())
    if len(shape) != 3 or shape[0] != size or not 0 < torch.Size(shape).numel() <= _LARGEST_TENSOR:
        raise AttangentError(f"{name} has the shape {shape}, expected ({size}, heads, d)")
    if stored.get_dtype() != "F32":
        raise AttangentError(f"{name} has the dtype {stored.get_dtype()}, expected F32")
