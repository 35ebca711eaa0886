"""Modules trained beside a prefix, such as a classifier: every adapter has its own, the base its old ones.

The model's parameters stay the same objects; what they hold is exchanged. Entries of the record's `saved` are
tensors by parameter name; the one under "" is the base model's.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.adapters.layers import bare
from attangent.adapters.record import Record, record_of

BASE = ""


def modules_named(base: nn.Module, names: Iterable[str]) -> dict[str, nn.Module]:
    """The modules whose path ends with one of the names, by path; every name must have one."""
    paths, found = dict(base.named_modules()), {}
    for name in names:
        own = {path: module for path, module in paths.items() if f".{path}".endswith(f".{name}")}
        if not own:
            raise AttangentError(f"modules_to_save names {name!r}, expected the end of a module's name")
        found |= own
    return found


def add_saved(model: Any, name: str, modules: dict[str, nn.Module]) -> None:
    """Give an adapter its own copy of these modules, trained from what the base model has."""
    record = record_of(model)
    show_saved(model, BASE)
    own = {
        f"{path}.{key}": t
        for path, module in modules.items()
        for key, t in module.state_dict(keep_vars=True).items()
    }
    record.saved.setdefault(BASE, {}).update({key: tensor.data for key, tensor in own.items()})
    record.saved[name] = {key: tensor.data.clone() for key, tensor in own.items()}
    for module in modules.values():
        module.requires_grad_(True)


def show_saved(model: Any, name: str) -> None:
    """Let the parameters hold the tensors of this adapter, those of the base where it has none."""
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
    """The tensors of an adapter's own modules by name in the model."""
    record = record_of(model)
    kept = record.saved.get(name, {})
    if name != record.shown:
        return dict(kept)
    tensors = _tensors(bare(model))
    return {key: tensors[key].data for key in kept}


def fill_saved(model: Any, name: str, tensors: dict[str, Tensor]) -> None:
    """Copy these tensors into an adapter's own modules."""
    for key, tensor in saved_of(model, name).items():
        if key in tensors:
            tensor.copy_(tensors[key])


def saved_to_show(record: Record) -> str:
    """The adapter whose saved modules act: the last active one that has some, else the base model ("")."""
    owners = [name for name in record.active if name in record.saved] if record.acting else []
    return owners[-1] if owners else BASE


def _tensors(base: nn.Module) -> dict[str, Tensor]:
    return {
        **dict(base.named_parameters(remove_duplicate=False)),
        **dict(base.named_buffers(remove_duplicate=False)),
    }
