"""Adapters on a model: attach, detach."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from attangent._core.errors import AttangentError, CalibrationWarning
from attangent.adapters import interface
from attangent.adapters.calibration import Batch, calibrate
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import Layer, bare, chosen_layers
from attangent.adapters.positions import check_offset, shift_positions
from attangent.adapters.prompts import start_from_prompt
from attangent.adapters.record import Record, drop_record, find_record, put_record, record_of
from attangent.adapters.saved_modules import BASE, add_saved, modules_named, show_saved
from attangent.adapters.slot import NAME, Slot, slot_of
from attangent.adapters.states import new_state
from attangent.adapters.switch import activate, delete
from attangent.attention import Prefix

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def attach(
    model: Any,
    config: NTKConfig | None = None,
    name: str = "default",
    *,
    calibration: Batch | Iterable[Batch] | None = None,
    prompt: Batch | None = None,
    states: Mapping[str, Prefix] | None = None,
) -> Any:
    """Give the model's attention layers a trainable prefix; the model itself is returned, changed in place.

    All other parameters are frozen, except `config.modules_to_save`. The new adapter is the active one; see
    `activate` for several. `calibration` is one batch of the model's inputs, or several: about 100 examples
    of the data to come, on which calibrated units are measured. `prompt` holds the inputs of the prompt for
    init `text`. `states` gives the state of some layers ready-made, by layer name; other layers get none.

    In each chosen layer attention becomes (e^A v + phi(q) Z) / (e^A 1 + phi(q) k); Z, k and what phi learns
    are the adapter (P1 Algorithm 2).

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=2, n_head=2, vocab_size=20))
    >>> batch = {"input_ids": torch.randint(20, (4, 6))}
    >>> model = attach(model, NTKConfig(size=4), calibration=batch)
    >>> sum(p.numel() for p in model.parameters() if p.requires_grad)
    128
    """
    config = NTKConfig() if config is None else config
    base = bare(model)
    _check_new(base, config, name, prompt, states)
    layers = chosen_layers(base, config)
    made = _made(config, layers, states)
    if calibration is None and states is None and config.resolved_units == "calibrated":
        _warn_of_calibration()
    kept = modules_named(base, config.modules_to_save)
    install(base, config, name, made)
    if kept:
        add_saved(base, name, kept)
    activate(model, name)
    try:
        if calibration is not None:
            calibrate(model, calibration, name)
        if prompt is not None:
            start_from_prompt(model, layers, prompt, name)
    except BaseException:
        _undo(model, name)
        raise
    return model


def _warn_of_calibration() -> None:
    warnings.warn(
        "attach was given no calibration: its units are 1 and training is slow. Pass calibration=BATCH, "
        "about 100 examples of your data, or call attangent.adapters.calibrate(model, BATCH) before training",
        CalibrationWarning,
        stacklevel=4,  # attach, and the gate before it
    )


def install(
    base: nn.Module, config: NTKConfig, name: str, states: Mapping[str, Any], kind: type[Slot] = Slot
) -> None:
    """Put ready states into slots of this kind and lead attention through them; nothing is activated."""
    check_offset(base, config.position_offset)
    record = find_record(base) or _prepared(base)
    modules = dict(base.named_modules())
    for layer, state in states.items():
        _slot(modules[layer], kind).states[name] = _placed(state, modules[layer])
    record.configs[name] = config
    if config.position_offset and not record.hooks:
        record.hooks = shift_positions(base, record)


def detach(model: Any) -> Any:
    """Take all adapters off: the model is as it was before the first `attach`, bit for bit.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20)).eval()
    >>> ids = torch.randint(20, (1, 6))
    >>> before = model(ids).logits
    >>> _ = attach(model, NTKConfig(), calibration={"input_ids": ids})
    >>> torch.equal(detach(model)(ids).logits, before)
    True
    """
    base = bare(model)
    record = record_of(base)
    show_saved(base, BASE)
    for module in list(base.modules()):
        if slot_of(module) is not None:
            del module._modules[NAME]
    for config, implementation in reversed(record.implementations):
        config._attn_implementation_internal = implementation
    for hook in record.hooks:
        hook.remove()
    for name, parameter in base.named_parameters():
        parameter.requires_grad_(name in record.trainable)
    drop_record(base)
    return model


def _check_new(base: Any, config: Any, name: Any, prompt: Any, states: Any) -> None:
    if not isinstance(config, NTKConfig):
        raise AttangentError(f"config is {type(config).__name__}, expected an NTKConfig")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise AttangentError(f"name is {name!r}, expected letters, digits, _ and -, at most 64")
    record = find_record(base)
    if record is not None and name in record.configs:
        raise AttangentError(f"there is an adapter {name!r} already: choose another name or delete it first")
    if states is None and (config.init == "text") != (prompt is not None):
        raise AttangentError("a prompt and init='text' belong together, expected both or neither")


def _made(config: NTKConfig, layers: list[Layer], states: Mapping[str, Prefix] | None) -> dict[str, Any]:
    if states is None:
        return {layer.name: new_state(config, layer, place) for place, layer in enumerate(layers)}
    by_name = {layer.name: layer for layer in layers}
    unknown = sorted(set(states) - set(by_name))
    if unknown or not states:
        raise AttangentError(
            f"states are given for {unknown or 'no layer'}, expected some of {', '.join(by_name)}"
        )
    for name, state in states.items():
        check_state_fits(by_name[name], state)
    return dict(states)


def check_state_fits(layer: Layer, state: Any) -> None:
    """A state of the layer's head and value sizes, as many heads as its query or kv heads."""
    Z, _ = state.weights()
    dim, (heads, _, value_size) = state.features.dim, Z.shape
    fits = heads in (layer.heads, layer.kv_heads) and (dim, value_size) == (layer.key_size, layer.value_size)
    if not fits:
        raise AttangentError(
            f"layer {layer.name} got a state of {heads} heads with keys of size {dim} and values of size "
            f"{value_size}, expected {layer.heads} or {layer.kv_heads} heads, keys of size {layer.key_size} "
            f"and values of size {layer.value_size}"
        )


def _prepared(base: nn.Module) -> Record:
    """Freeze the model and lead its attention through ours; how it was is kept in the record."""
    interface.register()
    record = Record()
    record.trainable = [name for name, parameter in base.named_parameters() if parameter.requires_grad]
    if not hasattr(base, "peft_config"):  # peft has frozen its model already, and LoRA weights stay trained
        base.requires_grad_(False)
    for config in _attention_configs(base):
        original = config._attn_implementation
        record.implementations.append((config, original))
        config._attn_implementation_internal = interface.name_for(original)
    put_record(base, record)
    return record


def _undo(model: Any, name: str) -> None:
    if len(record_of(model).configs) == 1:
        detach(model)
    else:
        delete(model, name)


def _attention_configs(base: nn.Module) -> list[Any]:
    """Every config from which some module reads its attention implementation, once."""
    configs = (getattr(module, "config", None) for module in base.modules())
    found = {id(config): config for config in configs if hasattr(config, "_attn_implementation")}
    return list(found.values())


def _slot(module: nn.Module, kind: type[Slot]) -> Slot:
    slot = slot_of(module)
    if slot is None:
        slot = kind()
        module.add_module(NAME, slot)
    return slot


def _placed(state: Any, module: nn.Module) -> nn.Module:
    """The state on the layer's device, in at least float32."""
    weight = next(iter(module.parameters()), None)
    return state if weight is None else state.to(weight.device)
