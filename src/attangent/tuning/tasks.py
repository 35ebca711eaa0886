"""Kinds of task that a model can be tuned for, and the classifier that each one needs."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from attangent._core.errors import AttangentError

TaskKind = Literal["classification", "regression", "causal-lm", "image-classification"]
_CLASSIFIERS = ("classifier", "score", "classification_head", "pre_classifier")


@dataclass(frozen=True)
class TaskNeeds:
    """Requirements of a task.

    Attributes:
        auto_class: The transformers class that loads the model.
        peft_task: The task type of peft; None if peft has none.
        classifier: Whether the model has a classifier.
        values: Whether the classifier returns one number instead of one score per class.
    """

    auto_class: str
    peft_task: str | None
    classifier: bool
    values: bool = False


NEEDS: dict[str, TaskNeeds] = {
    "classification": TaskNeeds("AutoModelForSequenceClassification", "SEQ_CLS", True),
    "regression": TaskNeeds("AutoModelForSequenceClassification", "SEQ_CLS", True, True),
    "causal-lm": TaskNeeds("AutoModelForCausalLM", "CAUSAL_LM", False),
    "image-classification": TaskNeeds("AutoModelForImageClassification", None, True),
}


def classifier_names(model: Any, kind: TaskKind) -> list[str]:
    """Return the names of the modules that form the classifier; none if the task needs no classifier."""
    if not NEEDS[kind].classifier:
        return []
    names = [name for name in _CLASSIFIERS if isinstance(getattr(model, name, None), nn.Module)]
    if not names:
        raise AttangentError(
            f"{type(model).__name__} has no module called {', '.join(_CLASSIFIERS)}; use a model for "
            "classification."
        )
    return names


def trained_classifier(adapted: nn.Module) -> nn.Linear:
    """Return the linear classifier in use in an adapted model: peft's copy if there is one."""
    layers = [
        module
        for path, module in adapted.named_modules()
        if isinstance(module, nn.Linear) and is_head(f"{path}.weight") and "original_module" not in path
    ]
    if len(layers) != 1:
        raise AttangentError(f"the model has {len(layers)} linear classifiers, expected one")
    return layers[0]


def unfreeze_classifier(adapted: Any) -> None:
    """Make the classifier trainable; if peft made a copy of it, only the copy."""
    for name, parameter in adapted.named_parameters():
        if is_head(name):
            parameter.requires_grad_("original_module" not in name)


def is_head(name: str) -> bool:
    """Return whether a parameter of this name belongs to a classifier."""
    return any(part in _CLASSIFIERS for part in name.split("."))


def trained_sizes(model: nn.Module) -> dict[str, int]:
    """Count the trainable numbers of the method and of the classifier."""
    trained = [(name, p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    head = sum(size for name, size in trained if is_head(name))
    return {"parameters": sum(size for _, size in trained) - head, "head_parameters": head}
