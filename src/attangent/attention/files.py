"""A prefix state in one safetensors file: its tensors, with the map's name and settings as metadata."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.files import writing
from attangent.attention.features import BY_NAME, FeatureMap

_FORMAT = "attangent prefix state 1"
MAP = "features."
"""Start of the names of a map's tensors."""


def save_state(path: str | PathLike[str], features: FeatureMap, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors of a state and its feature map to `path`, whole or not at all."""
    described = json.dumps({"map": features.name, "settings": features.describe()})
    save_tensors(path, tensors, {"format": _FORMAT, "features": described})


def save_tensors(path: str | PathLike[str], tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    check_path("path", path)
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with writing(path) as temporary:
        try:
            save_file(copies, temporary, metadata=metadata)
        except SafetensorError as error:
            raise OSError(f"{error}") from error


def load_state(path: str | PathLike[str]) -> tuple[FeatureMap, Tensor | tuple[Tensor, Tensor], Tensor]:
    """Read the feature map, Z (or its factors) and the masses that `save_state` wrote to `path`."""
    with open_tensors(path, "save a state there first") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() or {}
    if metadata.get("format") != _FORMAT:
        raise AttangentError(f"{path} has the format {metadata.get('format')!r}, expected {_FORMAT!r}")
    try:
        features = rebuild_map(json.loads(metadata["features"]), tensors)
        Z = (tensors["Z_A"], tensors["Z_B"]) if "Z_A" in tensors else tensors["Z_full"]
        return features, Z, tensors["mass"]
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
        raise AttangentError(f"{path} does not hold a whole prefix state: {error}") from None


def rebuild_map(described: Any, tensors: Mapping[str, Tensor]) -> FeatureMap:
    """Return the feature map with this name and these settings; its tensors are among those of its state."""
    name = described["map"]
    if name not in BY_NAME:
        raise AttangentError(f"the state uses the feature map {name!r}, expected one of {', '.join(BY_NAME)}")
    of_map = {key.removeprefix(MAP): t for key, t in tensors.items() if key.startswith(MAP)}
    return BY_NAME[name].rebuild(described["settings"], of_map)


def check_path(name: str, path: Any) -> None:
    """Check that `path` can name a file or folder."""
    if not isinstance(path, str | PathLike) or "\0" in str(path):
        raise AttangentError(f"{name} is {path!r}, expected the name of a file or folder")


def check_regular(path: str | PathLike[str], advice: str) -> None:
    """Check that `path` is a regular file: opening a pipe or a device could block forever."""
    check_path("path", path)
    if not Path(path).exists():
        raise AttangentError(f"there is no file {path}: {advice}")
    if not Path(path).is_file():
        raise AttangentError(f"{path} is not a regular file: {advice}")


@contextmanager
def open_tensors(path: str | PathLike[str], advice: str) -> Iterator[Any]:
    """Open a safetensors file, whose tensors can then be read one by one; `advice` helps if there is none."""
    from safetensors import SafetensorError, safe_open

    check_regular(path, advice)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise AttangentError(f"{path} is not a safetensors file: {error}; {advice}") from None
