"""The classifier of a model: where it is, and that it trains beside every method."""

from typing import Any

from torch import nn

from attangent._core.errors import AttangentError
from attangent.tuning.tasks import NEEDS, TaskKind

_NAMES = ("classifier", "score", "classification_head", "pre_classifier")


def classifier_names(model: Any, kind: TaskKind) -> list[str]:
    """The names of the modules that form the classifier; none where the task has no classifier."""
    if not NEEDS[kind].classifier:
        return []
    found = [name for name in _NAMES if isinstance(getattr(model, name, None), nn.Module)]
    if not found:
        raise AttangentError(
            f"{type(model).__name__} has no head called {', '.join(_NAMES)}: give a model for classification"
        )
    return found


def trained_classifier(adapted: nn.Module) -> nn.Linear:
    """The linear classifier that acts in an adapted model: peft's copy where there is one."""
    found = [
        module
        for path, module in adapted.named_modules()
        if isinstance(module, nn.Linear) and is_head(f"{path}.weight") and "original_module" not in path
    ]
    if len(found) != 1:
        raise AttangentError(f"the model has {len(found)} linear classifiers, expected one")
    return found[0]


def train_classifier(adapted: Any) -> None:
    """Unfreeze the classifier; where peft has made a copy of it, the copy."""
    for name, parameter in adapted.named_parameters():
        if is_head(name):
            parameter.requires_grad_("original_module" not in name)


def is_head(name: str) -> bool:
    """Whether a parameter of this name belongs to a classifier."""
    return any(part in _NAMES for part in name.split("."))


def trained_sizes(model: nn.Module) -> dict[str, int]:
    """How many numbers the method trains, and how many the classifier has."""
    trained = [(name, p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    head = sum(size for name, size in trained if is_head(name))
    return {"parameters": sum(size for _, size in trained) - head, "head_parameters": head}
