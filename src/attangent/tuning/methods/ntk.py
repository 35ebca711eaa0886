"""A prefix state: NTK-Attention, alone or on a model that has LoRA."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.save import load_adapter, save_adapter
from attangent.tuning.methods.any_peft import AnyPeft
from attangent.tuning.methods.from_peft import with_peft_adapter
from attangent.tuning.methods.lora import RSLORA, Lora, value_targets
from attangent.tuning.methods.technique import Site, Technique

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method

LORA = "lora"
_TRAINED_FEATURES = ("learned", "anchors")
_LORA_RATE = 0.2
"""LoRA's default rate over that of learned features."""


class Ntk(Technique):
    name = "ntk"
    bold = 2.0
    smallest = 2

    def default_rate(self, method: "Method") -> float:
        if method.ntk.resolved_units != "calibrated":
            return 1e-3  # P1 Appendix B.1
        return 1e-2 if method.ntk.features == "learned" else 0.03

    def has_size(self, method: "Method") -> bool:
        return method.ntk.features in _TRAINED_FEATURES

    def resized(self, method: "Method", size: int) -> "Method":
        return replace(method, ntk=NTKConfig.from_dict(method.ntk.as_dict() | {"size": size}))

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        return attach(model, _config(method, site.classifier, site.seed), calibration=site.calibration)

    def save(self, model: Any, place: Path) -> None:
        save_adapter(model, place)

    def load(self, model: Any, place: Path) -> Any:
        return load_adapter(model, place)


class NtkAndLora(Ntk):
    """Both at once, by default at half the size that each has alone; peft keeps the classifier.

    The rate is the state's; LoRA's part is trained at a fifth of it, as the two methods' own rates are. Where
    `Method.peft` is given, that config takes the place of LoRA on queries and values. On images LoRA's part
    is rsLoRA of twice the rank on values alone: a state cannot change what tokens tell each other.
    LoRA's part is saved in a folder below that of the state.
    """

    name = "ntk+lora"
    smallest = 1
    defaults: Mapping[str, Any] = {"rank": 4, "ntk": {"size": 8}}

    def rate_scale(self, parameter: str) -> float:
        return _LORA_RATE if "lora_" in parameter else 1.0

    def resized(self, method: "Method", size: int) -> "Method":
        return super().resized(replace(method, rank=size), 2 * size)

    def halves_of(self, method: "Method") -> "Method":
        """LoRA of half the rank, beside a state of half the size where it has one."""
        size, rank = method.ntk.resolved_size, max(1, method.rank // 2)
        half = replace(method, name=self.name, rank=rank)
        return super().resized(half, max(2, size // 2)) if size and self.has_size(method) else half

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        part = AnyPeft() if method.peft else Lora()
        adapted = part.added(model, _beside_state(model, method, site), site)
        trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
        attach(adapted, _config(method, [], site.seed), calibration=site.calibration)
        for name, parameter in adapted.named_parameters():
            if name in trained:
                parameter.requires_grad_(True)
        return adapted

    def save(self, model: Any, place: Path) -> None:
        super().save(model, place)
        model.save_pretrained(place / LORA)
        (place / LORA / "README.md").unlink(missing_ok=True)  # peft's form of a card, not filled in

    def load(self, model: Any, place: Path) -> Any:
        return super().load(with_peft_adapter(model, lora_of(place)), place)


def _beside_state(model: Any, method: "Method", site: Site) -> "Method":
    """What LoRA's part is asked with."""
    values = value_targets(model, method.top) if site.kind == "image-classification" else []
    if method.peft or not values:
        return method
    return replace(method, rank=2 * method.rank, peft={**RSLORA, "target_modules": values})


def lora_of(place: Path) -> Path:
    """The folder of LoRA's part: below that of the state, or beside it where 0.1 saved it."""
    return place / LORA if (place / LORA).is_dir() else place.with_name(LORA)


def _config(method: "Method", classifier: list[str], seed: int) -> NTKConfig:
    settings = method.ntk.as_dict() | {"seed": seed}
    if classifier:
        settings["modules_to_save"] = classifier
    if method.top is not None:
        settings["layers"] = list(range(-method.top, 0))
    return NTKConfig.from_dict(settings)
