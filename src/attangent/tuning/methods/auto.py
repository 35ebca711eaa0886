"""The better of LoRA and of a state with LoRA, by the rows kept apart."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._errors import AttangentError
from attangent.tuning.methods.ntk import NtkAndLora
from attangent.tuning.methods.technique import Site, Technique

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class Auto(Technique):
    """Tries each candidate at its own rate; a run says which it took. They have as many numbers as LoRA."""

    name = "auto"

    def candidates(self, method: "Method") -> "list[Method]":
        return [NtkAndLora().halves_of(method), replace(method, name="lora")]

    def default_rate(self, method: "Method") -> float:
        return self.candidates(method)[0].rate

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        raise AttangentError("auto is for `attangent tune`; here name ntk, ntk+lora or lora")

    def save(self, model: Any, place: Path) -> None:
        raise AttangentError("auto is saved as the method it chose")

    def load(self, model: Any, place: Path) -> Any:
        raise AttangentError("auto is loaded as the method it chose")
