"""Labelled images: a folder with one subfolder per class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import Dataset

from attangent._core.errors import AttangentError

_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif"}


@dataclass(frozen=True)
class ImageTask:
    """Image files, the index of the class of each, and the names of the classes."""

    files: tuple[Path, ...]
    targets: tuple[int, ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)

    def take(self, indices: Iterable[int]) -> "ImageTask":
        """Return the task with these images only, in this order."""
        chosen = list(indices)
        files = tuple(self.files[i] for i in chosen)
        return ImageTask(files, tuple(self.targets[i] for i in chosen), self.labels)


def read_images(folder: Path, *, labels: Sequence[str] | None = None) -> ImageTask:
    """List the images in `folder`/CLASS/; with `labels`, those of the training data, no other class."""
    if not folder.is_dir():
        raise AttangentError(f"there is no folder {folder}; use one with a subfolder of images per class.")
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    names = tuple(labels) if labels is not None else tuple(classes)
    unknown = sorted(set(classes) - set(names))
    if unknown:
        raise AttangentError(
            f"{folder} has the classes {', '.join(unknown)}, expected only those of the training data: "
            f"{', '.join(names)}"
        )
    images = [(path, names.index(name)) for name in classes for path in _images(folder / name)]
    if len(classes) < 2 or not images:
        raise AttangentError(
            f"{folder} has {len(images)} images in {len(classes)} classes, expected two classes"
        )
    return ImageTask(tuple(path for path, _ in images), tuple(target for _, target in images), names)


def _images(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if not paths:
        raise AttangentError(f"{folder} holds no image ({', '.join(sorted(_SUFFIXES))})")
    return paths


@dataclass(frozen=True)
class Pixels:
    """Preprocessing of an image: (x/255 - mean) / std at `size` x `size`."""

    size: int
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    @classmethod
    def of(cls, config: Any, preprocessor: Mapping[str, Any]) -> "Pixels":
        """Build it from a model's config and its preprocessor_config.json."""
        size = config.image_size[0] if isinstance(config.image_size, list | tuple) else config.image_size
        settings = {"mean": preprocessor.get("image_mean"), "std": preprocessor.get("image_std")}
        return cls(int(size), **{name: tuple(value) for name, value in settings.items() if value})

    def read(self, path: Path) -> Float[Tensor, "3 size size"]:
        """Read the pixel values of a file."""
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(path) as image:
                resized = image.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR)
        except (UnidentifiedImageError, OSError) as error:
            raise AttangentError(f"{path} cannot be read as an image: {error}") from None
        values = torch.from_numpy(np.asarray(resized, dtype=np.float32) / 255).permute(2, 0, 1)
        return (values - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]


class EncodedImages(Dataset[dict[str, Any]]):
    """Images that are read on access."""

    def __init__(self, task: ImageTask, pixels: Pixels):
        self._task = task
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._task)

    def __getitem__(self, index: int) -> dict[str, Any]:
        values = self._pixels.read(self._task.files[index])
        return {"pixel_values": values, "labels": self._task.targets[index]}
