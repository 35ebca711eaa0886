"""The record of a model's adapters, with which everything can be undone; switching them on and off.

Saved modules, such as a classifier, are trained with a prefix; every adapter has its own and the base model
keeps its old ones. The model's parameters stay the same objects; their data is exchanged. `Record.saved` has
tensors by adapter and parameter name, those of the base model under BASE.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import bare
from attangent.adapters.slot import Slot, slot_of

BASE = ""
_ATTRIBUTE = "attangent_record"
_SWITCHING = RLock()


@dataclass
class Record:
    """The adapters of a model, and its own settings before the first of them.

    Attributes:
        configs: The config of each adapter.
        active: The adapters that act.
        enabled: Whether peft has adapters enabled.
        pauses: Number of open `disabled` contexts.
        rows: The adapter of each row of the batch inside `batch`, otherwise None.
        implementations: Every config object of the model with its original attention implementation.
        trainable: Names of the parameters that were trainable.
        hooks: Hooks that shift positions.
        saved: Tensors of saved modules, by adapter and parameter name.
        shown: The adapter whose saved tensors the parameters hold now.
    """

    configs: dict[str, NTKConfig] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    enabled: bool = True
    pauses: int = 0
    rows: tuple[str | None, ...] | None = None
    implementations: list[tuple[Any, str | None]] = field(default_factory=list)
    trainable: list[str] = field(default_factory=list)
    hooks: list[Any] = field(default_factory=list)
    saved: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    shown: str = BASE

    @property
    def acting(self) -> bool:
        """Whether adapters act at all."""
        return self.enabled and self.pauses == 0

    def offset(self, device: torch.device) -> int | Tensor:
        """Return by how many positions the active adapters shift tokens; (B, 1) if rows differ."""
        if not self.acting:
            return 0
        if self.rows is None:
            return max((self.configs[name].position_offset for name in self.active), default=0)
        offsets = [0 if name is None else self.configs[name].position_offset for name in self.rows]
        return torch.tensor(offsets, device=device).unsqueeze(-1) if any(offsets) else 0


def find_record(model: Any) -> Record | None:
    """Return the record of a model; None if it has no adapter."""
    return getattr(bare(model), _ATTRIBUTE, None)


def record_of(model: Any) -> Record:
    """Return the record of a model with adapters."""
    record = find_record(model)
    if record is None:
        raise AttangentError(f"{type(model).__name__} has no adapter attached: call attangent.attach first")
    return record


def put_record(model: nn.Module, record: Record) -> None:
    """Store the record on the model."""
    setattr(bare(model), _ATTRIBUTE, record)


def drop_record(model: nn.Module) -> None:
    """Remove the record from the model."""
    delattr(bare(model), _ATTRIBUTE)


def set_rows(model: Any, record: Record, rows: tuple[str | None, ...] | None) -> None:
    """Give each row of the next batches its adapter; None ends that."""
    record.rows = rows
    for slot in slots(model).values():
        slot.rows = rows
        slot.folded = None


def check_known(model: Any, name: str) -> None:
    """Check that the model has an adapter of this name."""
    known = record_of(model).configs
    if name not in known:
        raise AttangentError(f"there is no adapter {name!r}, expected one of {', '.join(map(repr, known))}")


def slots(model: Any) -> dict[str, Slot]:
    """Return the slots of the model by the name of their attention layer."""
    by_name = {name: slot_of(module) for name, module in bare(model).named_modules()}
    return {name: slot for name, slot in by_name.items() if slot is not None}


def states_of(model: Any, name: str = "default") -> dict[str, Any]:
    """Return the states of one adapter by the name of their attention layer.

    Args:
        model: A model with adapters.
        name: The name of the adapter.

    Returns:
        The states, which are modules with `weights()` and `features`.

    Raises:
        AttangentError: If the model has no adapter of this name.

    Example:
        >>> from attangent import attach
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> _ = attach(model, NTKConfig(size=4), calibration={"input_ids": torch.randint(20, (2, 6))})
        >>> {name: tuple(state.Z.shape) for name, state in states_of(model).items()}
        {'transformer.h.0.attn': (2, 4, 4)}
    """
    check_known(model, name)
    return {layer: slot.states[name] for layer, slot in slots(model).items() if name in slot.states}


def activate(model: Any, *names: str) -> Any:
    """Let these adapters act and train, all at once; the others are inactive.

    The numerators and masses of several prefixes add up.

    Args:
        model: A model with adapters; it is changed in place.
        *names: Names of attached adapters; none leaves the base model.

    Returns:
        The model.

    Raises:
        AttangentError: If a name is unknown.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> batch = {"input_ids": torch.randint(20, (2, 6))}
        >>> for name in ("one", "other"):
        ...     _ = attach(model, NTKConfig(), name, calibration=batch)
        >>> _ = activate(model, "one")
        >>> active_adapters(model)
        ('one',)
    """
    for name in names:
        check_known(model, name)
    record = record_of(model)
    record.active = tuple(dict.fromkeys(names))
    for slot in slots(model).values():
        slot.active = record.active
        slot.folded = None
        for name, state in slot.states.items():
            state.requires_grad_(name in names)
    show_saved(model, saved_to_show(record))
    return model


def active_adapters(model: Any) -> tuple[str, ...]:
    """Return the names of the adapters that act.

    Args:
        model: A model with adapters.

    Returns:
        Their names.

    Raises:
        AttangentError: If the model has no adapter.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> _ = attach(model, NTKConfig(features="elu"), "mine")
        >>> active_adapters(model)
        ('mine',)
    """
    return record_of(model).active


@contextmanager
def disabled(model: Any) -> Iterator[Any]:
    """Disable all adapters inside a `with` block.

    Blocks may be nested and entered by several threads: adapters act again once the last block has ended.

    Args:
        model: A model with adapters.

    Yields:
        The model.

    Raises:
        AttangentError: If the model has no adapter.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20)).eval()
        >>> ids = torch.randint(20, (1, 6))
        >>> bare_logits = model(ids).logits
        >>> _ = attach(model, NTKConfig(), calibration={"input_ids": ids})
        >>> with disabled(model):
        ...     torch.allclose(model(ids).logits, bare_logits)
        True
    """
    _pause(model, 1)
    try:
        yield model
    finally:
        _pause(model, -1)


def _pause(model: Any, change: int) -> None:
    """Count open `disabled` blocks; adapters act when there is none."""
    with _SWITCHING:
        record = record_of(model)
        record.pauses += change
        for slot in slots(model).values():
            slot.enabled = record.acting
        show_saved(model, saved_to_show(record))


def delete(model: Any, name: str) -> Any:
    """Remove one of several adapters; `detach` removes all and restores the model.

    Args:
        model: A model with adapters; it is changed in place.
        name: The adapter to remove.

    Returns:
        The model.

    Raises:
        AttangentError: If the name is unknown or it is the only adapter.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> for name in ("one", "other"):
        ...     _ = attach(model, NTKConfig(features="elu"), name)
        >>> _ = delete(model, "one")
        >>> active_adapters(model)
        ('other',)
    """
    check_known(model, name)
    record = record_of(model)
    if len(record.configs) == 1:
        raise AttangentError(f"{name!r} is the only adapter: call attangent.detach(model) to remove it")
    for slot in slots(model).values():
        if name in slot.states:
            del slot.states[name]
    activate(model, *(active for active in record.active if active != name))
    del record.configs[name]
    record.saved.pop(name, None)
    return model


def modules_named(base: nn.Module, names: Iterable[str]) -> dict[str, nn.Module]:
    """Return the modules whose path ends with one of the names, by path; every name must match one."""
    paths = dict(base.named_modules())
    modules: dict[str, nn.Module] = {}
    for name in names:
        matches = {path: module for path, module in paths.items() if f".{path}".endswith(f".{name}")}
        if not matches:
            raise AttangentError(f"modules_to_save has {name!r}, which ends the name of no module")
        modules |= matches
    return modules


def add_saved(model: Any, name: str, modules: dict[str, nn.Module]) -> None:
    """Give an adapter its own trainable copy of these modules, starting from the base model's."""
    record = record_of(model)
    show_saved(model, BASE)
    tensors = {
        f"{path}.{key}": tensor
        for path, module in modules.items()
        for key, tensor in module.state_dict(keep_vars=True).items()
    }
    record.saved.setdefault(BASE, {}).update({key: tensor.data for key, tensor in tensors.items()})
    record.saved[name] = {key: tensor.data.clone() for key, tensor in tensors.items()}
    for module in modules.values():
        module.requires_grad_(True)


def show_saved(model: Any, name: str) -> None:
    """Let the parameters hold the tensors of this adapter, or of the base model if it has none."""
    record = record_of(model)
    if name == record.shown or not record.saved:
        return
    tensors = _tensors(bare(model))
    for key in record.saved.get(record.shown, {}):
        record.saved[record.shown][key] = tensors[key].data
    for key, data in (record.saved[BASE] | record.saved.get(name, {})).items():
        tensors[key].data = data.to(tensors[key].device, tensors[key].dtype)
    record.shown = name


def saved_of(model: Any, name: str) -> dict[str, Tensor]:
    """Return the tensors of an adapter's saved modules by parameter name."""
    record = record_of(model)
    saved = record.saved.get(name, {})
    if name != record.shown:
        return dict(saved)
    tensors = _tensors(bare(model))
    return {key: tensors[key].data for key in saved}


def fill_saved(model: Any, name: str, tensors: dict[str, Tensor]) -> None:
    """Copy these tensors into an adapter's saved modules."""
    for key, tensor in saved_of(model, name).items():
        if key in tensors:
            tensor.copy_(tensors[key])


def saved_to_show(record: Record) -> str:
    """Return the last active adapter that has saved modules; BASE if there is none."""
    owners = [name for name in record.active if name in record.saved] if record.acting else []
    return owners[-1] if owners else BASE


def _tensors(base: nn.Module) -> dict[str, Tensor]:
    return {
        **dict(base.named_parameters(remove_duplicate=False)),
        **dict(base.named_buffers(remove_duplicate=False)),
    }
