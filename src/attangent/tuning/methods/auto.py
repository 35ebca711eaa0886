"""The better of LoRA and of a state with LoRA, by the rows kept apart."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._core.errors import AttangentError
from attangent.tuning.methods.lora import RSLORA
from attangent.tuning.methods.ntk import NtkAndLora
from attangent.tuning.methods.technique import Site, Technique
from attangent.tuning.tasks import TaskKind

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class Auto(Technique):
    """Tries each candidate at its own rate; a run says which it took. They have as many numbers as LoRA.

    On images rsLoRA comes first, elsewhere the state with LoRA: a later one must be clearly better.
    """

    name = "auto"

    def candidates(self, method: "Method", kind: TaskKind = "classification") -> "list[Method]":
        both, lora = NtkAndLora().halves_of(method), replace(method, name="lora")
        if kind == "image-classification":
            return [replace(lora, peft={**lora.peft, **RSLORA}), both]
        return [both, lora]

    def default_rate(self, method: "Method") -> float:
        return self.candidates(method)[0].rate

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        raise AttangentError("auto is for `attangent tune`; here name ntk, ntk+lora or lora")

    def save(self, model: Any, place: Path) -> None:
        raise AttangentError("auto is saved as the method it chose")

    def load(self, model: Any, place: Path) -> Any:
        raise AttangentError("auto is loaded as the method it chose")
