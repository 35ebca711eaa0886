"""Modules trained beside a prefix, such as a classifier: every adapter has its own, the base its old ones.

The model's parameters stay the same objects; what they hold is exchanged. Entries of the record's `heads` are
tensors by parameter name; the one under "" is the base model's.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from attangent._errors import AttangentError
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


def add_head(model: Any, name: str, modules: dict[str, nn.Module]) -> None:
    """Give an adapter its own copy of these modules, trained from what the base model has."""
    record = record_of(model)
    show_head(model, BASE)
    own = {
        f"{path}.{key}": t
        for path, module in modules.items()
        for key, t in module.state_dict(keep_vars=True).items()
    }
    record.heads.setdefault(BASE, {}).update({key: tensor.data for key, tensor in own.items()})
    record.heads[name] = {key: tensor.data.clone() for key, tensor in own.items()}
    for module in modules.values():
        module.requires_grad_(True)


def show_head(model: Any, name: str) -> None:
    """Let the parameters hold the tensors of this adapter, those of the base where it has none."""
    record = record_of(model)
    if name == record.shown or not record.heads:
        return
    tensors = _tensors(bare(model))
    for key in record.heads.get(record.shown, {}):
        record.heads[record.shown][key] = tensors[key].data
    for key, data in (record.heads[BASE] | record.heads.get(name, {})).items():
        tensors[key].data = data.to(tensors[key].device, tensors[key].dtype)
    record.shown = name


def head_of(model: Any, name: str) -> dict[str, Tensor]:
    """The tensors of an adapter's own modules by name in the model."""
    record = record_of(model)
    kept = record.heads.get(name, {})
    if name != record.shown:
        return dict(kept)
    tensors = _tensors(bare(model))
    return {key: tensors[key].data for key in kept}


def fill_head(model: Any, name: str, tensors: dict[str, Tensor]) -> None:
    """Copy these tensors into an adapter's own modules."""
    for key, tensor in head_of(model, name).items():
        if key in tensors:
            tensor.copy_(tensors[key])


def head_to_show(record: Record) -> str:
    """Whose modules act: those of the last active adapter that has some, the base's while disabled."""
    owners = [name for name in record.active if name in record.heads] if record.enabled else []
    return owners[-1] if owners else BASE


def _tensors(base: nn.Module) -> dict[str, Tensor]:
    return {
        **dict(base.named_parameters(remove_duplicate=False)),
        **dict(base.named_buffers(remove_duplicate=False)),
    }
