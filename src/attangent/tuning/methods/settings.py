"""A method with its numbers, as files and commands name it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor

from attangent._core.checks import check_names, check_size
from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.tuning.methods.classifier import classifier_names
from attangent.tuning.methods.registry import TECHNIQUES
from attangent.tuning.methods.technique import Site, Technique
from attangent.tuning.tasks import TaskKind


@dataclass(frozen=True)
class Method:
    """What is trained beside the classifier.

    name: `ntk` (a prefix state), `lora` (rank `rank` on queries and values), `prefix` (`tokens` trained keys
        and values per layer, P-tuning v2), `head` (the classifier alone), `probe` (the classifier in closed
        form), `full` (every weight), `ntk+lora`, `peft` (any config of peft's), or `auto` (lora,
        or half of it beside half a state, whichever is better on rows kept apart).
    top: only the last so many layers; None is all of them. peft's `prefix` knows only all.
    learning_rate: None is the method's own default.
    peft: for the method `peft`, the config's `peft_type` (such as "IA3") and its settings; for `ntk+lora`
        those of its LoRA, which otherwise has rank `rank`; for `lora` further settings of peft's LoraConfig.
    """

    name: str = "ntk"
    ntk: NTKConfig = field(default_factory=NTKConfig)
    rank: int = 8
    tokens: int = 16
    top: int | None = None
    learning_rate: float | None = None
    peft: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in TECHNIQUES:
            raise AttangentError(f"method is {self.name!r}, expected one of {', '.join(TECHNIQUES)}")
        for size in ("rank", "tokens"):
            check_size(size, getattr(self, size))
        if self.top is not None:
            check_size("top", self.top)
        if self.top is not None and self.ntk.layers is not None:
            raise AttangentError("both top and ntk.layers are given, expected one of them")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise AttangentError(f"learning_rate is {self.learning_rate}, expected a number above 0")

    @property
    def technique(self) -> Technique:
        return TECHNIQUES[self.name]

    @property
    def rate(self) -> float:
        """The learning rate: that given, or the one found best for the method (see docs/tuning.md)."""
        return self.technique.default_rate(self) if self.learning_rate is None else self.learning_rate

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Method":
        """The method with these settings; `ntk` holds those of NTKConfig. An unknown one is refused."""
        check_names(settings, (setting.name for setting in fields(cls)), "a method")
        technique = TECHNIQUES.get(settings.get("name", cls.name))
        defaults = {} if technique is None else technique.defaults
        ntk = NTKConfig.from_dict({**defaults.get("ntk", {}), **settings.get("ntk", {})})
        return cls(**{**defaults, **settings, "ntk": ntk})


DEFAULT = Method()
"""Stands for the default of the task in hand."""


def adapt(
    model: Any,
    method: Method,
    kind: TaskKind,
    seed: int,
    calibration: Iterable[Mapping[str, Tensor]] | None = None,
) -> Any:
    """The model with what the method trains added and unfrozen, its classifier too, and all else frozen.

    `calibration` holds batches of the model's inputs; NTK-Attention in calibrated units needs them.
    """
    site = Site(kind, classifier_names(model, kind), seed, calibration)
    return method.technique.apply(model, method, site)
