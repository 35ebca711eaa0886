"""What every method knows of itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attangent.tuning.methods.classifier import train_classifier
from attangent.tuning.tasks import TaskKind

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


@dataclass(frozen=True)
class Site:
    """What a method needs to know of the run: task, modules of the classifier, seed, calibration batches."""

    kind: TaskKind
    classifier: list[str]
    seed: int
    calibration: Iterable[Mapping[str, Tensor]] | None = None


class Technique(ABC):
    """A method as an object; `Method` holds the numbers it is asked with."""

    name: str
    smallest = 1
    """The least size `resized` takes."""
    trains = True
    """Whether there is anything to train; False where closed forms are all there is."""
    bold = 1.0
    """How many times its own rate it takes where a classifier in closed form leaves much to learn."""
    place = "adapter"
    """The folder below that of a run into which `save` writes."""
    defaults: Mapping[str, Any] = {}
    """Settings of `Method` that are others than its own where they are not given."""

    def candidates(self, method: "Method", kind: TaskKind = "classification") -> "list[Method]":
        """The methods that are tried on a task of this kind; the first unless a later one is clearly better
        on rows kept apart."""
        return [method]

    @abstractmethod
    def default_rate(self, method: "Method") -> float:
        """The learning rate where none is given."""

    @abstractmethod
    def added(self, model: Any, method: "Method", site: Site) -> Any:
        """The frozen model with what this method trains added and unfrozen."""

    def rate_scale(self, parameter: str) -> float:
        """The rate of the parameter of this name relative to the method's own."""
        return 1.0

    def has_size(self, method: "Method") -> bool:
        """Whether one number decides how much is trained, so that it can be fitted to a budget."""
        return False

    def resized(self, method: "Method", size: int) -> "Method":
        """The method at this size."""
        raise NotImplementedError(f"{self.name} has no size")

    @abstractmethod
    def save(self, model: Any, place: Path) -> None:
        """Write what was trained into the folder `place`."""

    @abstractmethod
    def load(self, model: Any, place: Path) -> Any:
        """The base model with what `save` wrote."""

    def source(self, base: str, place: Path) -> str:
        """Where the weights of the base model are: `base`, unless they were trained themselves."""
        return base

    def apply(self, model: Any, method: "Method", site: Site) -> Any:
        """The model with this method's part and its classifier trainable, everything else frozen."""
        model.requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(site.seed)
            adapted = self.added(model, method, site)
        if site.classifier:
            train_classifier(adapted)
        return adapted


class WholeModel(Technique):
    """A method that changes the model's own weights, so that the model itself is saved."""

    place = "model"

    def save(self, model: Any, place: Path) -> None:
        model.save_pretrained(place)

    def load(self, model: Any, place: Path) -> Any:
        return model

    def source(self, base: str, place: Path) -> str:
        return str(place)
