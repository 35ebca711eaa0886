"""LoRA on queries and values."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import nn

from attangent._core.checks import check_names
from attangent._core.errors import AttangentError
from attangent.tuning.methods.from_peft import FromPeft, peft_task
from attangent.tuning.methods.technique import Site

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method

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


_VALUE = {"value", "v_proj", "v_lin", "v"}
RSLORA: Mapping[str, Any] = {"use_rslora": True}
"""Settings of peft's: matrices are multiplied by alpha / sqrt(rank) in the place of alpha / rank."""


class Lora(FromPeft):
    """LoRA of rank `rank`; what `Method.peft` names are further settings of peft's LoraConfig."""

    name = "lora"
    bold = 2.0

    def default_rate(self, method: "Method") -> float:
        return 2e-3

    def has_size(self, method: "Method") -> bool:
        return True

    def resized(self, method: "Method", size: int) -> "Method":
        return replace(method, rank=size)

    def config(self, model: Any, method: "Method", site: Site) -> Any:
        from peft import LoraConfig

        check_names(method.peft, inspect.signature(LoraConfig).parameters, "peft for the method lora")
        filled = {
            "r": method.rank,
            "lora_alpha": 2 * method.rank,
            "target_modules": lora_targets(model, method.top),
            "modules_to_save": [*site.classifier] or None,
            "task_type": peft_task(site.kind),
        }
        return LoraConfig(**{**filled, **method.peft})


def value_targets(model: nn.Module, top: int | None = None) -> list[str]:
    """Those of `lora_targets` that give values and nothing else."""
    return [name for name in lora_targets(model, top) if name.rpartition(".")[2] in _VALUE]


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
