"""The attention layers of a Hugging Face model that a prefix can be attached to."""

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from torch import nn

from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig

_SECONDS = 0.5
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_HEADS = ("num_heads", "n_heads", "num_attention_heads")
_KEY_SIZES = ("qk_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim")
_VALUE_SIZES = ("v_head_dim", *_KEY_SIZES[1:])


class Layer(NamedTuple):
    """An attention module with its name in the model and its sizes."""

    name: str
    module: nn.Module
    heads: int
    kv_heads: int
    key_size: int
    value_size: int

    def state_heads(self, per: str) -> int:
        return self.heads if per == "query" else self.kv_heads


def bare(model: Any) -> Any:
    """The transformers model inside wrappers of torch.compile, torch's data parallelism and peft."""
    for wrapped in ("_orig_mod", "module"):
        inner = getattr(model, wrapped, None)
        if isinstance(inner, nn.Module) and not hasattr(model, "config"):
            return bare(inner)
    if isinstance(getattr(model, "_orig_mod", None), nn.Module):
        return bare(model._orig_mod)
    if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
        return model.get_base_model()
    return model


def attention_layers(model: nn.Module) -> list[Layer]:
    """Every module of the model whose attention goes through transformers' AttentionInterface, in order.

    Raises where there is none, naming the model.
    """
    _check_model(model)
    layers = [_layer(name, module) for name, module in _using_interface(model)]
    if not layers:
        raise AttangentError(
            f"no layer of {type(model).__name__} takes a prefix: none of its modules calls transformers' "
            "AttentionInterface. Supported are models whose modeling file does (gpt2, llama, mistral, qwen, "
            "gemma, phi, bert, roberta, vit, whisper, t5 and most others; not bloom, gptj, gpt_neo, falcon)"
        )
    return layers


def chosen_layers(model: nn.Module, config: NTKConfig) -> list[Layer]:
    """The attention layers that `config.layers` speaks of."""
    layers = attention_layers(model)
    wanted = config.layers
    if wanted is None:
        return layers
    if isinstance(wanted, str):
        found = [layer for layer in layers if _matches(wanted, layer.name)]
    else:
        out = [i for i in wanted if not -len(layers) <= i < len(layers)]
        if out:
            raise AttangentError(f"layers names the places {out}, expected places of {len(layers)} layers")
        places = {i % len(layers) for i in wanted}
        found = [layer for i, layer in enumerate(layers) if i in places]
    if not found:
        names = ", ".join(layer.name for layer in layers[:4])
        raise AttangentError(f"layers {wanted!r} matches no attention layer, expected some of {names}, ...")
    return found


def _matches(pattern: str, name: str) -> bool:
    """Whether the pattern is found in the name; one that takes exponentially long is given up and refused."""
    import regex

    try:
        return regex.search(pattern, name, timeout=_SECONDS) is not None
    except TimeoutError:
        raise AttangentError(
            f"layers {pattern!r} takes more than {_SECONDS:g} s to match {name}: expected a regular "
            "expression without repetitions inside repetitions"
        ) from None
    except regex.error as error:
        raise AttangentError(f"layers {pattern!r} is no regular expression: {error}") from None


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise AttangentError(f"model is {type(model).__name__}, expected a Hugging Face transformers model")


def _using_interface(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if hasattr(module, "config") and _calls_interface(type(module)):
            yield name, module


@cache
def _calls_interface(kind: type[nn.Module]) -> bool:
    forward = kind.__dict__.get("forward") or getattr(kind, "forward", None)
    try:
        source = inspect.getsource(inspect.unwrap(forward)) if forward is not None else ""
    except (OSError, TypeError):
        return False
    return f"{_INTERFACE}.get_interface(" in source or f"{_INTERFACE}[" in source


def _layer(name: str, module: Any) -> Layer:
    config = module.config
    heads = _first(module, _HEADS) or _first(config, _HEADS)
    key_size = _first(module, _KEY_SIZES) or _first(config, _KEY_SIZES) or _hidden(module) // (heads or 1)
    value_size = _first(module, _VALUE_SIZES) or _first(config, _VALUE_SIZES) or key_size
    if not heads or not key_size or not value_size:
        raise AttangentError(f"the heads of layer {name} ({type(module).__name__}) could not be found out")
    groups = _first(module, ("num_key_value_groups",)) or 1
    kv_heads = _first(module, ("num_key_value_heads",)) or heads // groups
    return Layer(name, module, heads, kv_heads, key_size, value_size)


def _first(holder: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(holder, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def _hidden(module: Any) -> int:
    return _first(module, ("embed_dim", "hidden_size")) or _first(module.config, ("hidden_size",)) or 0
