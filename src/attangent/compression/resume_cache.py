"""Intermediate results of a run, kept in its folder so that an interrupted run can resume."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_json, writing
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.compression.prompt_cache import PromptState

FOLDER = ".work"
_LARGEST = 1 << 24
_PARTS = ("keys", "Z", "mass")
_T = TypeVar("_T")


def digest(key: Any) -> str:
    """Return sixteen letters that stand for JSON data or dataclasses."""
    text = json.dumps(key, sort_keys=True, default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ResumeCache:
    """Tensors and JSON values by name, one file each; without a folder nothing is stored.

    Args:
        folder: Folder of the run.
        key: Identifies the run. Files of another run are removed.
    """

    def __init__(self, folder: Path | None = None, key: Any = None):
        self.folder: Path | None = None
        self.resumed = False
        if folder is not None:
            self.folder = folder / FOLDER / digest(key)
            real_folder(self.folder.parent)
            # One run per folder: results of another request would never be used again.
            for other in self.folder.parent.iterdir():
                if other != self.folder and other.is_dir() and not other.is_symlink():
                    shutil.rmtree(other)
            self.resumed = self.folder.is_dir() and any(self.folder.iterdir())
            real_folder(self.folder)

    def path(self, name: str) -> Path | None:
        """Return the path of a file of this name."""
        return None if self.folder is None else self.folder / name

    def load_tensors(self, name: str) -> dict[str, Tensor] | None:
        """Return the tensors stored under this name, if there are any.

        Raises:
            AttangentError: If the file cannot be read.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = self.path(f"{name}.safetensors")
        if path is None or not path.is_file():
            return None
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise _unreadable(path, error) from None

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Store tensors under this name and return them."""
        path = self.path(f"{name}.safetensors")
        if path is None:
            return dict(tensors)
        from safetensors.torch import save_file

        # safetensors refuses tensors that share memory, hence the clone.
        stored = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
        with writing(path) as part:
            save_file(stored, part)
        return stored

    def load_states(self, name: str) -> dict[str, PromptState] | None:
        """Return the states stored under this name, if there are any."""
        tensors = self.load_tensors(name)
        return None if tensors is None else unpacked(tensors)

    def save_states(self, name: str, states: Mapping[str, PromptState]) -> dict[str, PromptState]:
        """Store states under this name; return them as a resumed run would load them."""
        return dict(states) if self.folder is None else unpacked(self.save_tensors(name, packed(states)))

    def load_json(self, name: str) -> Any:
        """Return the value stored under this name, or None.

        Raises:
            AttangentError: If the file cannot be read.
        """
        path = self.path(f"{name}.json")
        if path is None or not path.is_file():
            return None
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError("it is too large")
            return json.loads(path.read_text())
        except (ValueError, OSError, RecursionError) as error:
            raise _unreadable(path, error) from None

    def save_json(self, name: str, value: _T) -> _T:
        """Store a value under this name and return it."""
        path = self.path(f"{name}.json")
        if path is not None:
            write_json(path, value)
        return value

    def clear(self) -> None:
        """Remove all files: the run is complete."""
        if self.folder is not None:
            shutil.rmtree(self.folder.parent, ignore_errors=True)


def _unreadable(path: Path, error: Exception) -> AttangentError:
    return AttangentError(f"cannot read {path}: {error}; remove it to start again")


def packed(states: Mapping[str, PromptState]) -> dict[str, Tensor]:
    """Return the tensors of states of virtual tokens, by layer and part."""
    tensors = {}
    for name, state in states.items():
        ragged = RaggedState.from_state(state) if isinstance(state, PrefixState) else state
        tensors |= {f"{name}/{part}": getattr(ragged, part).detach() for part in _PARTS}
        tensors[f"{name}/sizes"] = torch.tensor(ragged.sizes)
        tensors[f"{name}/softcap"] = torch.tensor(float(ragged.softcap or 0))
    return tensors


def _numbered(name: str) -> list[tuple[bool, int, str]]:
    return [
        (part.isdigit(), int(part), "") if part.isdigit() else (False, 0, part) for part in name.split(".")
    ]


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, PromptState]:
    """Return the states that `packed` took apart, in the order of the model's layers."""
    states: dict[str, PromptState] = {}
    # A file lists its tensors by name, and there layer 10 comes before layer 2.
    for name in sorted({key.rpartition("/")[0] for key in tensors}, key=_numbered):
        keys, Z, mass = (tensors[f"{name}/{part}"] for part in _PARTS)
        sizes = tensors[f"{name}/sizes"].tolist()
        softcap = tensors[f"{name}/softcap"].item() or None
        if len(set(sizes)) > 1:
            states[name] = RaggedState(keys, Z, mass, sizes, softcap)
        else:
            c, Z, k = (tensor.unflatten(0, (len(sizes), -1)) for tensor in (keys, Z, mass))
            states[name] = PrefixState(Anchors(c, softcap), Z, k)
    return states
