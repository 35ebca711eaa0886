"""Attach adapters to a model and detach them."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from attangent._core.errors import AttangentError, CalibrationWarning
from attangent.adapters import interface
from attangent.adapters.calibration import Batch, calibrate, start_from_prompt
from attangent.adapters.config import NTKConfig
from attangent.adapters.layers import AttentionLayer, bare, chosen_layers
from attangent.adapters.record import (
    BASE,
    Record,
    activate,
    add_saved,
    delete,
    drop_record,
    find_record,
    modules_named,
    put_record,
    record_of,
    show_saved,
)
from attangent.adapters.slot import NAME, Slot, slot_of
from attangent.adapters.states import new_state
from attangent.attention import Prefix

Model = TypeVar("Model", bound=nn.Module)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_POSITION_TABLES = ("wpe", "position_embeddings", "embed_positions")


def attach(
    model: Model,
    config: NTKConfig | None = None,
    name: str = "default",
    *,
    calibration: Batch | Iterable[Batch] | None = None,
    prompt: Batch | None = None,
    states: Mapping[str, Prefix] | None = None,
) -> Model:
    """Give the attention layers of a model a trainable prefix, in place, and freeze the model.

    In each chosen layer attention becomes (e^A v + phi(q) Z) / (e^A 1 + phi(q) k); Z, k and the weights of
    phi are the adapter (P1 Algorithm 2). The new adapter is the active one; see `activate` for several.

    Args:
        model: A transformers model.
        config: Settings of the adapter; by default `NTKConfig()`.
        name: A name for the adapter.
        calibration: One batch of the model's inputs or several, about 100 examples, to measure the units of
            calibrated states on.
        prompt: Inputs of the real prompt to start from; needed if `config.init` is "text".
        states: Ready states by layer name; other layers get none.

    Returns:
        The model. Only the adapter and `config.modules_to_save` are trainable.

    Raises:
        AttangentError: If the model has no suitable layer, the name is taken or the arguments do not fit.

    Example:
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
    initial = _initial_states(config, layers, states)
    if calibration is None and states is None and config.resolved_units == "calibrated":
        warnings.warn(
            "attach was called without calibration: the units are 1 and training is slow. Pass "
            "calibration=BATCH, about 100 examples of your data, or call "
            "attangent.adapters.calibrate(model, BATCH) before training",
            CalibrationWarning,
            stacklevel=2,
        )
    saved = modules_named(base, config.modules_to_save)
    install(base, config, name, initial)
    if saved:
        add_saved(base, name, saved)
    activate(model, name)
    try:
        if calibration is not None:
            calibrate(model, calibration, name)
        if prompt is not None:
            start_from_prompt(model, layers, prompt, name)
    except BaseException:
        remove(model, name)
        raise
    return model


def install(
    base: nn.Module, config: NTKConfig, name: str, states: Mapping[str, Any], kind: type[Slot] = Slot
) -> None:
    """Put states into slots of this kind and route attention through them; nothing is activated."""
    _check_offset(base, config.position_offset)
    record = find_record(base) or _prepare(base)
    modules = dict(base.named_modules())
    for layer, state in states.items():
        weight = next(iter(modules[layer].parameters()), None)
        placed = state if weight is None else state.to(weight.device)  # the dtype stays at least float32
        _slot(modules[layer], kind).states[name] = placed
    record.configs[name] = config
    if config.position_offset and not record.hooks:
        hook = _PositionShift(record)
        takers = [module for path, module in base.named_modules() if takes_positions(path, module)]
        record.hooks = [module.register_forward_pre_hook(hook, with_kwargs=True) for module in takers]


def detach(model: Model) -> Model:
    """Remove all adapters; the model is as before the first `attach`, bit for bit.

    Args:
        model: A model with adapters; it is changed in place.

    Returns:
        The model.

    Raises:
        AttangentError: If the model has no adapter.

    Example:
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


def check_name(name: str) -> None:
    """Check the name of an adapter."""
    if not _NAME.fullmatch(name):
        raise AttangentError(f"name is {name!r:.80}, expected at most 64 letters, digits, _ and -")


def _check_new(base: Any, config: NTKConfig, name: str, prompt: Any, states: Any) -> None:
    check_name(name)
    record = find_record(base)
    if record is not None and name in record.configs:
        raise AttangentError(f"there is an adapter {name!r} already: choose another name or delete it first")
    if states is None and (config.init == "text") != (prompt is not None):
        raise AttangentError("a prompt and init='text' need each other: pass both or neither")


def _initial_states(
    config: NTKConfig, layers: list[AttentionLayer], states: Mapping[str, Prefix] | None
) -> dict[str, Any]:
    if states is None:
        return {layer.name: new_state(config, layer, index) for index, layer in enumerate(layers)}
    by_name = {layer.name: layer for layer in layers}
    unknown = sorted(set(states) - set(by_name))
    if unknown or not states:
        raise AttangentError(
            f"states are given for {unknown or 'no layer'}, expected some of {', '.join(by_name)}"
        )
    for name, state in states.items():
        check_state_fits(by_name[name], state)
    return dict(states)


def check_state_fits(layer: AttentionLayer, state: Any) -> None:
    """Check the key and value sizes of a state, and that it has as many heads as queries or keys."""
    Z, _ = state.weights()
    dim = state.features.dim
    heads, _, value_size = Z.shape
    fits = heads in (layer.heads, layer.kv_heads) and (dim, value_size) == (layer.key_size, layer.value_size)
    if not fits:
        raise AttangentError(
            f"layer {layer.name} got a state of {heads} heads with keys of size {dim} and values of size "
            f"{value_size}, expected {layer.heads} or {layer.kv_heads} heads, keys of size {layer.key_size} "
            f"and values of size {layer.value_size}"
        )


def _prepare(base: nn.Module) -> Record:
    """Freeze the model, route its attention through ours, and record how it was before."""
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


def remove(model: Any, name: str) -> None:
    """Remove an adapter, also the only one."""
    if len(record_of(model).configs) == 1:
        detach(model)
    else:
        delete(model, name)


def _attention_configs(base: nn.Module) -> list[Any]:
    """Return every config from which a module reads its attention implementation, once."""
    configs = (getattr(module, "config", None) for module in base.modules())
    unique = {id(config): config for config in configs if hasattr(config, "_attn_implementation")}
    return list(unique.values())


def _slot(module: nn.Module, kind: type[Slot]) -> Slot:
    slot = slot_of(module)
    if slot is None:
        slot = kind()
        module.add_module(NAME, slot)
    return slot


class _PositionShift:
    """A forward pre-hook that adds the offset of the active adapters to positions.

    Tokens after a prompt that became a state keep the positions that they would have after the prompt.
    """

    def __init__(self, record: Record):
        self.record = record

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        positions = next((value for value in [*args, *kwargs.values()] if _are_positions(value)), None)
        offset = 0 if positions is None else self.record.offset(positions.device)
        if positions is None or (isinstance(offset, int) and offset == 0):
            return None
        if "position_ids" in kwargs:
            return args, kwargs | {"position_ids": _shifted(kwargs["position_ids"], offset)}
        return tuple(_shifted(value, offset) if _are_positions(value) else value for value in args), kwargs


def _check_offset(base: nn.Module, offset: int) -> None:
    """Check that the model has positions and room for the offset."""
    takers = [module for path, module in base.named_modules() if takes_positions(path, module)]
    if offset and not takers:
        raise AttangentError(
            f"position_offset is {offset}, but {type(base).__name__} has no rotary embedding and no table of "
            "positions to shift: use position_offset=0"
        )
    room = min((m.num_embeddings for m in takers if isinstance(m, nn.Embedding)), default=offset + 1)
    if offset >= room:
        raise AttangentError(f"position_offset is {offset}, but the model's table has {room} positions")


def takes_positions(path: str, module: nn.Module) -> bool:
    """Return whether the module is a rotary embedding or a plain table of positions.

    Subclasses of nn.Embedding take masks or tokens instead and are left alone.
    """
    table = type(module) is nn.Embedding and path.rpartition(".")[2] in _POSITION_TABLES
    return table or "RotaryEmbedding" in type(module).__name__


def _shifted(positions: Tensor, offset: int | Tensor) -> Tensor:
    """Shift positions (..., L), (..., 1, L) or (..., B, L); per row if the offset is (B, 1)."""
    if isinstance(offset, Tensor) and positions.ndim > 1 and positions.shape[-2] not in (1, len(offset)):
        raise AttangentError(
            f"the batch has {positions.shape[-2]} rows, but adapters are given for {len(offset)}"
        )
    return positions + offset


def _are_positions(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_floating_point()
