"""The ways to tune a model: NTK-Attention, and its rivals from peft and transformers under one roof."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig

MethodName = Literal["ntk", "lora", "prefix", "head", "full", "ntk+lora"]
Kind = Literal["classification", "causal-lm", "image-classification"]

_HEADS = ("classifier", "score", "classification_head", "pre_classifier")
_QUERY_AND_VALUE = {
    "query",
    "value",
    "q_proj",
    "v_proj",
    "q_lin",
    "v_lin",
    "q",
    "v",
    "c_attn",
    "query_key_value",
}
_RATES = {"lora": 2e-3, "prefix": 1e-2, "head": 1e-2, "full": 5e-5}


@dataclass(frozen=True)
class Method:
    """What is trained beside the head.

    name: `ntk` (a prefix state), `lora` (rank `rank` on queries and values), `prefix` (`tokens` trained keys
        and values a layer, P-tuning v2), `head` (the classifier alone), `full` (every weight), or `ntk+lora`.
    top: only the last so many layers; None is all of them. peft's `prefix` knows only all.
    learning_rate: None is the method's own default.
    """

    name: MethodName = "ntk"
    ntk: NTKConfig = field(default_factory=NTKConfig)
    rank: int = 8
    tokens: int = 16
    top: int | None = None
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(MethodName):
            raise AttangentError(
                f"method is {self.name!r}, expected one of {', '.join(get_args(MethodName))}"
            )
        for size in ("rank", "tokens"):
            check_size(size, getattr(self, size))
        if self.top is not None:
            check_size("top", self.top)
        if self.top is not None and self.ntk.layers is not None:
            raise AttangentError("both top and ntk.layers are given, expected one of them")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise AttangentError(f"learning_rate is {self.learning_rate}, expected a number above 0")

    @property
    def rate(self) -> float:
        """The learning rate: that given, or the one found best for the method (see docs/tuning.md)."""
        if self.learning_rate is not None:
            return self.learning_rate
        if "ntk" not in self.name:
            return _RATES[self.name]
        if self.ntk.resolved_units != "calibrated":
            return 1e-3  # P1 Appendix B.1
        if self.ntk.features == "learned":
            return 1e-2
        return 0.03

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Method":
        """The method with these settings; `ntk` holds those of NTKConfig. An unknown one is refused."""
        known = {setting.name for setting in fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise AttangentError(
                f"unknown settings {', '.join(unknown)} of a method, "
                f"expected some of {', '.join(sorted(known))}"
            )
        ntk = NTKConfig.from_dict(dict(settings.get("ntk", {})))
        return cls(**{**settings, "ntk": ntk})


def adapt(
    model: Any,
    method: Method,
    kind: Kind,
    seed: int,
    calibration: Iterable[Mapping[str, Tensor]] | None = None,
) -> Any:
    """The model with what the method trains added and unfrozen, its head too, and everything else frozen.

    `calibration` holds batches of the model's inputs; NTK-Attention in calibrated units needs them.
    """
    head = _heads(model, kind)
    if method.name == "full":
        return model.requires_grad_(True)
    model.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = _added(model, method, kind, head, seed, calibration)
    _train_head(adapted, head)
    return adapted


def _added(model: Any, method: Method, kind: Kind, head: list[str], seed: int, calibration: Any) -> Any:
    if method.name == "head":
        if not head:
            raise AttangentError(
                f"{type(model).__name__} has no head of its own to train; choose another method"
            )
        return model
    if method.name == "prefix":
        return _with_prefix(model, method, kind)
    if method.name == "lora":
        return _with_lora(model, method, kind, head)
    own_head = head
    adapted = model
    if method.name == "ntk+lora":
        adapted, own_head = _with_lora(model, method, kind, head), []  # peft keeps the head
    thawed = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    attach(adapted, _ntk_config(method, own_head, seed), calibration=calibration)
    for name, parameter in adapted.named_parameters():
        if name in thawed:
            parameter.requires_grad_(True)
    return adapted


def _ntk_config(method: Method, head: list[str], seed: int) -> NTKConfig:
    settings = method.ntk.as_dict() | {"seed": seed}
    if head:
        settings["modules_to_save"] = head
    if method.top is not None:
        settings["layers"] = list(range(-method.top, 0))
    return NTKConfig.from_dict(settings)


def _with_lora(model: Any, method: Method, kind: Kind, head: list[str]) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=method.rank,
        lora_alpha=2 * method.rank,
        target_modules=lora_targets(model, method.top),
        modules_to_save=[*head] or None,
        task_type=_peft_task(kind),
    )
    return get_peft_model(model, config)


def lora_targets(model: nn.Module, top: int | None = None) -> list[str]:
    """The names of the query and value projections, in the last `top` layers or in all."""
    found = [name for name, module in model.named_modules() if _is_projection(name, module)]
    if not found:
        raise AttangentError(
            f"{type(model).__name__} has no projection called {', '.join(sorted(_QUERY_AND_VALUE))}: "
            "LoRA does not know where to go"
        )
    layers = sorted({_layer_number(name) for name in found})
    kept = set(layers if top is None else layers[-top:])
    return [name for name in found if _layer_number(name) in kept]


def _is_projection(name: str, module: nn.Module) -> bool:
    return name.rpartition(".")[2] in _QUERY_AND_VALUE and getattr(module, "weight", None) is not None


def _layer_number(name: str) -> int:
    number = re.search(r"\.(\d+)\.", name)
    return int(number[1]) if number else 0


def _with_prefix(model: Any, method: Method, kind: Kind) -> Any:
    from peft import PrefixTuningConfig, get_peft_model

    if kind == "image-classification":
        raise AttangentError("peft has no prefix tuning for vision models; choose ntk, lora, head or full")
    if method.top is not None and method.top < getattr(model.config, "num_hidden_layers", method.top):
        raise AttangentError(
            f"top is {method.top}, but peft's prefix goes into all {model.config.num_hidden_layers} layers; "
            "leave top out, or compare with a cached trunk"
        )
    config = PrefixTuningConfig(task_type=_peft_task(kind), num_virtual_tokens=method.tokens)
    return get_peft_model(model, config)


def _peft_task(kind: Kind) -> str | None:
    return {"classification": "SEQ_CLS", "causal-lm": "CAUSAL_LM", "image-classification": None}[kind]


def _heads(model: Any, kind: Kind) -> list[str]:
    if kind == "causal-lm":
        return []
    found = [name for name in _HEADS if isinstance(getattr(model, name, None), nn.Module)]
    if not found:
        raise AttangentError(
            f"{type(model).__name__} has no head called {', '.join(_HEADS)}: give a model for classification"
        )
    return found


def _train_head(adapted: Any, head: list[str]) -> None:
    if not head:
        return
    for name, parameter in adapted.named_parameters():
        if is_head(name):
            parameter.requires_grad_("original_module" not in name)  # peft's copy trains, the first one rests


def is_head(name: str) -> bool:
    """Whether a parameter of this name belongs to a classifier."""
    return any(part in _HEADS for part in name.split("."))


def trained_sizes(model: nn.Module) -> dict[str, int]:
    """How many numbers the method trains, and how many the head has."""
    trained = [(name, p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    head = sum(size for name, size in trained if is_head(name))
    return {"parameters": sum(size for _, size in trained) - head, "head_parameters": head}
