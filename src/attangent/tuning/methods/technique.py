"""The interface of a tuning method, and the methods that train the model's own weights."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.tuning.tasks import TaskKind, unfreeze_classifier

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


@dataclass(frozen=True)
class MethodContext:
    """Facts about a run that a method needs.

    Attributes:
        kind: The kind of task.
        classifier: Names of the modules that form the classifier.
        seed: Seed of the initial weights.
        calibration: Batches of model inputs, for methods that measure activations.
    """

    kind: TaskKind
    classifier: list[str]
    seed: int
    calibration: Iterable[Mapping[str, Tensor]] | None = None


class Technique(ABC):
    """Base class of the tuning methods. `Method` holds the settings that each call receives.

    Attributes:
        name: The name users select the method by.
        trains: Whether the method takes optimiser steps; False if it has a closed form.
        bold: Factor on the default learning rate if the closed-form classifier leaves much to learn.
        completion_factor: Factor on the default learning rate for text completion, which has no closed form.
        folder: Subfolder of a run into which `save` writes.
        defaults: Settings of `Method` that differ from its defaults.
        reads: Settings of `Method` that have an effect; any other is an error.
    """

    name: str
    trains = True
    bold = 1.0
    completion_factor = 1.0
    folder = "adapter"
    defaults: Mapping[str, Any] = {}
    reads: tuple[str, ...] = ("learning_rate",)

    @abstractmethod
    def default_rate(self, method: "Method") -> float:
        """Return the learning rate to use if the user gives none."""

    @abstractmethod
    def added(self, model: Any, method: "Method", context: MethodContext) -> Any:
        """Return the frozen model with the trainable parts of this method added."""

    def rate_scale(self, parameter: str) -> float:
        """Return the learning rate of a parameter relative to that of the method."""
        return 1.0

    @abstractmethod
    def save(self, model: Any, folder: Path) -> None:
        """Write the trained parts into `folder`."""

    @abstractmethod
    def load(self, model: Any, folder: Path) -> Any:
        """Return the base model with the parts that `save` wrote."""

    def source(self, base: str, folder: Path) -> str:
        """Return the location of the base weights: `base`, unless the method trained them."""
        return base

    def apply(self, model: Any, method: "Method", context: MethodContext) -> Any:
        """Freeze the model, then add the trainable parts of this method and unfreeze the classifier."""
        model.requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.seed)
            adapted = self.added(model, method, context)
        if context.classifier:
            unfreeze_classifier(adapted)
        return adapted


class WholeModel(Technique):
    """A method that changes the model's own weights, so that the whole model is saved."""

    folder = "model"

    def save(self, model: Any, folder: Path) -> None:
        model.save_pretrained(folder)

    def load(self, model: Any, folder: Path) -> Any:
        return model

    def source(self, base: str, folder: Path) -> str:
        return str(folder)


class Full(WholeModel):
    """Train every weight."""

    name = "full"

    def default_rate(self, method: "Method") -> float:
        return 5e-5

    def apply(self, model: Any, method: "Method", context: MethodContext) -> Any:
        return self.added(model, method, context)

    def added(self, model: Any, method: "Method", context: MethodContext) -> Any:
        return model.requires_grad_(True)


class Head(WholeModel):
    """Train the classifier alone."""

    name = "head"

    def default_rate(self, method: "Method") -> float:
        return 1e-2

    def added(self, model: Any, method: "Method", context: MethodContext) -> Any:
        if not context.classifier:
            raise AttangentError(
                f"{type(model).__name__} has no classifier to train; choose another method than {self.name}."
            )
        return model


class Probe(Head):
    """Logistic regression on the frozen model's features: the classifier in closed form."""

    name = "probe"
    trains = False
    reads = ()
