"""Which method is taken where none is named, and why: what came out best in docs/tuning.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attangent.tuning.methods.lora import RSLORA
from attangent.tuning.methods.settings import Method
from attangent.tuning.tasks import TaskKind


@dataclass(frozen=True)
class Default:
    """The settings of a method, as `Method.from_dict` takes them, and the reason in one line."""

    settings: Mapping[str, Any]
    why: str

    @property
    def method(self) -> Method:
        return Method.from_dict(self.settings)


def default_for(kind: TaskKind) -> Default:
    """The method for this kind of task."""
    if kind == "image-classification":
        why = "lora (as rsLoRA), which is ahead of states on images; --method names another"
        return Default({"name": "lora", "peft": dict(RSLORA)}, why)
    standing = ", about level with LoRA on texts" if kind == "classification" else ""
    return Default({"name": "ntk"}, f"ntk{standing}; --method auto tries LoRA on your rows, too")
