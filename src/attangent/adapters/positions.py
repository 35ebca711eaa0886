"""Tokens behind a prompt that is now a state: their positions are those they would have behind it."""

from typing import Any

from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.adapters.record import Record

_TABLES = ("wpe", "position_embeddings", "embed_positions")


class _Shift:
    """A hook before a module that is given positions: it adds the offset of the active adapters."""

    def __init__(self, record: Record):
        self.record = record

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = [*args, *kwargs.values()]
        positions = next((value for value in given if _are_positions(value)), None)
        offset = 0 if positions is None else self.record.offset(positions.device)
        if positions is None or (isinstance(offset, int) and offset == 0):
            return None
        if "position_ids" in kwargs:
            return args, kwargs | {"position_ids": _moved(kwargs["position_ids"], offset)}
        return tuple(_moved(value, offset) if _are_positions(value) else value for value in args), kwargs


def shift_positions(base: nn.Module, record: Record) -> list[Any]:
    """Hooks on every module of the model that is given positions."""
    hook = _Shift(record)
    return [
        module.register_forward_pre_hook(hook, with_kwargs=True)
        for name, module in base.named_modules()
        if takes_positions(name, module)
    ]


def check_offset(base: nn.Module, offset: int) -> None:
    """Refuse an offset that no module can be given, or that a table of positions has no room for."""
    takers = [module for name, module in base.named_modules() if takes_positions(name, module)]
    if offset and not takers:
        raise AttangentError(
            f"position_offset is {offset}, but {type(base).__name__} has no rotary embedding and no table of "
            "positions: its tokens cannot be moved, use position_offset=0"
        )
    room = min((m.num_embeddings for m in takers if isinstance(m, nn.Embedding)), default=offset + 1)
    if offset >= room:
        raise AttangentError(f"position_offset is {offset}, but the model's table ends at {room} positions")


def takes_positions(name: str, module: nn.Module) -> bool:
    """Whether the module is a rotary embedding or a plain table of positions.

    Subclasses of tables are given masks or tokens instead and are left alone.
    """
    table = type(module) is nn.Embedding and name.rpartition(".")[2] in _TABLES
    return table or "RotaryEmbedding" in type(module).__name__


def _moved(positions: Tensor, offset: int | Tensor) -> Tensor:
    """Positions (..., L), (..., 1, L) or (..., B, L) moved, by rows where the offset is (B, 1)."""
    if isinstance(offset, Tensor) and positions.ndim > 1 and positions.shape[-2] not in (1, len(offset)):
        raise AttangentError(
            f"the batch has {positions.shape[-2]} rows, but adapters are given for {len(offset)}"
        )
    return positions + offset


def _are_positions(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_floating_point()
