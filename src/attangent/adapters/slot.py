"""What sits in an attention layer: the states of its adapters, and which of them are active."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from attangent.adapters.call import AttentionCall
from attangent.attention import Prefix
from attangent.attention.backends.decode.fold import Folded

NAME = "attangent_prefix"
"""The name under which an attention module holds its slot."""


class RowGroup(NamedTuple):
    """Rows of a batch that have the same prefix, or none."""

    rows: list[int]
    prefix: Prefix | None


class Slot(nn.Module):
    """The prefix states of one attention layer by adapter name."""

    def __init__(self) -> None:
        super().__init__()
        self.states = nn.ModuleDict()
        self.active: tuple[str, ...] = ()
        self.enabled = True
        self.recorder: Callable[[AttentionCall], None] | None = None
        self.rows: tuple[str | None, ...] | None = None
        self.folded: Folded | None = None

    def current(self) -> Prefix | None:
        """The prefix that acts now: that of the active adapters together; None for none."""
        if not self.enabled:
            return None
        found = [self.states[name] for name in self.active if name in self.states]
        if not found:
            return None
        if len(found) == 1:
            return found[0]  # type: ignore[return-value]
        from attangent.adapters.stack import stacked

        return stacked(found)  # type: ignore[arg-type]

    def row_groups(self) -> list[RowGroup]:
        """The rows of the batch by the adapter they have, inside `batch`."""
        assert self.rows is not None
        groups: dict[str | None, list[int]] = {}
        for row, name in enumerate(self.rows):
            own = name if name is not None and name in self.states else None
            groups.setdefault(own, []).append(row)
        return [
            RowGroup(rows, None if name is None else self.states[name])  # type: ignore[arg-type]
            for name, rows in groups.items()
        ]

    def __getstate__(self) -> dict[str, Any]:
        """Copies do not take folded weights along."""
        return {**self.__dict__, "folded": None}

    def extra_repr(self) -> str:
        return f"active={list(self.active)}, enabled={self.enabled}"


def slot_of(module: nn.Module) -> Slot | None:
    """The slot of an attention module, None where nothing is attached."""
    return module._modules.get(NAME)  # type: ignore[return-value]
