"""The better of NTK-Attention and LoRA, by the rows kept apart."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._errors import AttangentError
from attangent.tuning.methods.technique import Site, Technique

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method

_TRIED = ("ntk", "lora")


class Auto(Technique):
    """Tries each candidate at its own rate; a run says which it took."""

    name = "auto"

    def candidates(self, method: "Method") -> "list[Method]":
        return [replace(method, name=name) for name in _TRIED]

    def default_rate(self, method: "Method") -> float:
        return replace(method, name=_TRIED[0]).rate

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        raise AttangentError(f"auto is for `attangent tune`; here name one of {', '.join(_TRIED)}")

    def save(self, model: Any, place: Path) -> None:
        raise AttangentError("auto is saved as the method it chose")

    def load(self, model: Any, place: Path) -> Any:
        raise AttangentError("auto is loaded as the method it chose")
