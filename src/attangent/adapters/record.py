"""What a model remembers of its adapters, so that everything can be undone."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import bare
from attangent.adapters.slot import Slot, slot_of

_ATTRIBUTE = "attangent_record"


@dataclass
class Record:
    """The configs of the adapters by name, which of them act, and the model before the first of them."""

    configs: dict[str, NTKConfig] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    enabled: bool = True
    pauses: int = 0
    """How many `disabled` contexts are open."""
    rows: tuple[str | None, ...] | None = None
    """The adapter of each row of the batch inside `batch`, None elsewhere."""
    implementations: list[tuple[Any, str | None]] = field(default_factory=list)
    """Every config object of the model with the attention it named."""
    trainable: list[str] = field(default_factory=list)
    """Names of the parameters that were trained."""
    hooks: list[Any] = field(default_factory=list)
    saved: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """Tensors of the modules saved with an adapter, by adapter; see `saved_modules`."""
    shown: str = ""
    """The adapter whose saved tensors the model's parameters hold at the moment; "" for the base model's."""

    @property
    def acting(self) -> bool:
        """Whether adapters act at all."""
        return self.enabled and self.pauses == 0

    def offset(self, device: torch.device) -> int | Tensor:
        """How many positions the tokens are moved by the adapters that act; (B, 1) where rows differ."""
        if not self.acting:
            return 0
        if self.rows is None:
            return max((self.configs[name].position_offset for name in self.active), default=0)
        each = [0 if name is None else self.configs[name].position_offset for name in self.rows]
        return torch.tensor(each, device=device).unsqueeze(-1) if any(each) else 0


def find_record(model: Any) -> Record | None:
    return getattr(bare(model), _ATTRIBUTE, None)


def record_of(model: Any) -> Record:
    """The record of a model with adapters; refused where it has none."""
    found = find_record(model)
    if found is None:
        raise AttangentError(f"{type(model).__name__} has no adapter attached: call attangent.attach first")
    return found


def put_record(model: nn.Module, record: Record) -> None:
    setattr(bare(model), _ATTRIBUTE, record)


def drop_record(model: nn.Module) -> None:
    delattr(bare(model), _ATTRIBUTE)


def check_known(model: Any, name: str) -> None:
    known = record_of(model).configs
    if not isinstance(name, str) or name not in known:
        raise AttangentError(f"there is no adapter {name!r}, expected one of {', '.join(map(repr, known))}")


def slots(model: Any) -> dict[str, Slot]:
    """The slots of the model by the name of their attention layer."""
    found = {name: slot_of(module) for name, module in bare(model).named_modules()}
    return {name: slot for name, slot in found.items() if slot is not None}


def states_of(model: Any, name: str = "default") -> dict[str, Any]:
    """The states of one adapter by the name of their attention layer."""
    check_known(model, name)
    return {layer: slot.states[name] for layer, slot in slots(model).items() if name in slot.states}
