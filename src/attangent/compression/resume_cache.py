"""What a run has worked out so far, kept in its folder: a run that was cut off goes on where it stopped."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_json, writing

FOLDER = ".work"
_LARGEST = 1 << 24


def digest(key: Any) -> str:
    """Sixteen letters that stand for something of JSON, dataclasses too."""
    text = json.dumps(key, sort_keys=True, default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Work:
    """Tensors and notes by name, each in a file of its own; without a folder nothing is kept.

    `key` says what the run is: files of another run are not used and are removed.
    """

    def __init__(self, folder: Path | None = None, key: Any = None):
        self.place = None if folder is None else folder / FOLDER / digest(key)
        if self.place is not None and folder is not None:
            real_folder(folder / FOLDER)
            for other in (folder / FOLDER).iterdir():
                if other != self.place and other.is_dir() and not other.is_symlink():
                    shutil.rmtree(other)
            real_folder(self.place)

    def path(self, name: str) -> Path | None:
        """Where a file of this name lies."""
        return None if self.place is None else self.place / name

    def tensors(self, name: str, make: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """The tensors kept under this name, or those that `make` gives, which are kept."""
        path = self.path(f"{name}.safetensors")
        if path is None:
            return dict(make())
        from safetensors.torch import save_file

        if path.is_file():
            return _read_tensors(path)
        made = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in make().items()}
        with writing(path) as part:
            save_file(made, part)
        return made

    def notes(self, name: str, make: Callable[[], Any]) -> Any:
        """The JSON kept under this name, or what `make` gives, which is kept."""
        path = self.path(f"{name}.json")
        if path is None or not path.is_file():
            made = make()
            if path is not None:
                write_json(path, made)
            return made
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError("it is too large")
            return json.loads(path.read_text())
        except (ValueError, OSError, RecursionError) as error:
            raise AttangentError(f"{path} cannot be read: {error}; remove it to start anew") from None

    def finish(self) -> None:
        """Remove everything: the run is done."""
        if self.place is not None:
            shutil.rmtree(self.place.parent, ignore_errors=True)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise AttangentError(f"{path} cannot be read: {error}; remove it to start anew") from None
