"""Methods with a prefix state (NTK-Attention): alone and with LoRA."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.save import load_adapter, save_adapter
from attangent.tuning.methods.peft_methods import RSLORA, AnyPeft, Lora, value_targets, with_peft_adapter
from attangent.tuning.methods.technique import MethodContext, Technique

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method

LORA = "lora"
# Learning rate of LoRA relative to that of learned features.
_LORA_RATE = 0.2


class Ntk(Technique):
    """Train a prefix state in every layer (NTK-Attention, Algorithm 2 of P1)."""

    name = "ntk"
    bold = 2.0
    reads: tuple[str, ...] = ("learning_rate", "top", "ntk")

    def default_rate(self, method: "Method") -> float:
        if method.ntk.resolved_units != "calibrated":
            return 1e-3  # P1 Appendix B.1
        return 1e-2 if method.ntk.features == "learned" else 0.03

    def added(self, model: Any, method: "Method", context: MethodContext) -> Any:
        return attach(
            model, _config(method, context.classifier, context.seed), calibration=context.calibration
        )

    def save(self, model: Any, folder: Path) -> None:
        save_adapter(model, folder)

    def load(self, model: Any, folder: Path) -> Any:
        return load_adapter(model, folder)


class NtkAndLora(Ntk):
    """Train a state and LoRA at once, by default each at half its usual size; peft holds the classifier.

    The learning rate is that of the state; LoRA trains at a fifth of it. If `Method.peft` is set, that
    config replaces LoRA on queries and values. LoRA is saved in a folder below that of the state.
    """

    name = "ntk+lora"
    defaults: Mapping[str, Any] = {"rank": 4, "ntk": {"size": 8}}
    reads = ("learning_rate", "top", "ntk", "rank", "peft")

    def rate_scale(self, parameter: str) -> float:
        return _LORA_RATE if "lora_" in parameter else 1.0

    def added(self, model: Any, method: "Method", context: MethodContext) -> Any:
        technique = AnyPeft() if method.peft else Lora()
        adapted = technique.added(model, _lora_part(model, method, context), context)
        trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
        attach(adapted, _config(method, [], context.seed), calibration=context.calibration)
        # `attach` freezes everything but its states: LoRA has to be unfrozen again.
        for name, parameter in adapted.named_parameters():
            if name in trained:
                parameter.requires_grad_(True)
        return adapted

    def save(self, model: Any, folder: Path) -> None:
        super().save(model, folder)
        model.save_pretrained(folder / LORA)
        (folder / LORA / "README.md").unlink(missing_ok=True)  # peft's card template, not filled in

    def load(self, model: Any, folder: Path) -> Any:
        # Version 0.1 saved LoRA next to the state instead of below it.
        lora = folder / LORA if (folder / LORA).is_dir() else folder.with_name(LORA)
        return super().load(with_peft_adapter(model, lora), folder)


def _lora_part(model: Any, method: "Method", context: MethodContext) -> "Method":
    """Return the settings of the LoRA part.

    On images it is rsLoRA of twice the rank on values alone: a state cannot change what tokens tell each
    other.
    """
    values = value_targets(model, method.top) if context.kind == "image-classification" else []
    if method.peft or not values:
        return method
    return replace(method, rank=2 * method.rank, top=None, peft={**RSLORA, "target_modules": values})


def _config(method: "Method", classifier: list[str], seed: int) -> NTKConfig:
    settings = method.ntk.as_dict() | {"seed": seed}
    if classifier:
        settings["modules_to_save"] = classifier
    if method.top is not None:
        settings["layers"] = list(range(-method.top, 0))
    return NTKConfig.from_dict(settings)
