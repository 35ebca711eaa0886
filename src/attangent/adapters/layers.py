"""The attention layers of a Hugging Face model that can take a prefix."""

import inspect
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, NamedTuple

from torch import nn

from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig

_MATCH_SECONDS = 0.5
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_HEADS = ("num_heads", "n_heads", "num_attention_heads")
_KEY_SIZES = ("qk_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim")
_VALUE_SIZES = ("v_head_dim", *_KEY_SIZES[1:])


class AttentionLayer(NamedTuple):
    """An attention module with its name in the model and its sizes.

    Attributes:
        name: Name of the module in the model.
        module: The module.
        heads: Number of query heads.
        kv_heads: Number of key and value heads.
        key_size: Size of a query or key per head.
        value_size: Size of a value per head.
    """

    name: str
    module: nn.Module
    heads: int
    kv_heads: int
    key_size: int
    value_size: int

    def state_heads(self, per: str) -> int:
        """Return the number of heads of a state per `query` or per `kv` head."""
        return self.heads if per == "query" else self.kv_heads


def bare(model: Any) -> Any:
    """Return the transformers model inside wrappers of torch.compile, data parallelism and peft."""
    for wrapped in ("_orig_mod", "module"):
        inner = getattr(model, wrapped, None)
        if isinstance(inner, nn.Module) and not hasattr(model, "config"):
            return bare(inner)
    if isinstance(getattr(model, "_orig_mod", None), nn.Module):
        return bare(model._orig_mod)
    if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
        return model.get_base_model()
    return model


def attention_layers(model: nn.Module) -> list[AttentionLayer]:
    """Return every module whose attention goes through transformers' AttentionInterface, in order.

    Args:
        model: A transformers model.

    Returns:
        The layers with their names and sizes.

    Raises:
        AttangentError: If there is none.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=2, n_head=2, vocab_size=20))
        >>> [layer.name for layer in attention_layers(model)]
        ['transformer.h.0.attn', 'transformer.h.1.attn']
    """
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise AttangentError(f"model is {type(model).__name__}, expected a Hugging Face transformers model")
    layers = [_layer(name, module) for name, module in _using_interface(model)]
    if not layers:
        raise AttangentError(
            f"no layer of {type(model).__name__} can take a prefix: none of its modules calls transformers' "
            "AttentionInterface. Supported are models whose modeling file does (gpt2, llama, mistral, qwen, "
            "gemma, phi, bert, roberta, vit, whisper, t5 and most others; not bloom, gptj, gpt_neo, falcon)"
        )
    return layers


def chosen_layers(model: nn.Module, config: NTKConfig) -> list[AttentionLayer]:
    """Return the attention layers that `config.layers` selects."""
    layers = attention_layers(model)
    wanted = config.layers
    if wanted is None:
        return layers
    if isinstance(wanted, str):
        chosen = [layer for layer in layers if _matches(wanted, layer.name)]
    else:
        out = [i for i in wanted if not -len(layers) <= i < len(layers)]
        if out:
            raise AttangentError(f"layers has the indices {out}, but the model has {len(layers)} layers")
        indices = {i % len(layers) for i in wanted}
        chosen = [layer for i, layer in enumerate(layers) if i in indices]
    if not chosen:
        names = ", ".join(layer.name for layer in layers[:4])
        raise AttangentError(f"layers {wanted!r} matches no attention layer, expected some of {names}, ...")
    return chosen


def check_layers(model: nn.Module, config: NTKConfig, states: Collection[str]) -> None:
    """Check that the model has the layers of a stored adapter, which has all that its config selects."""
    unknown = sorted(set(states) - {layer.name for layer in attention_layers(model)})
    if unknown:
        raise AttangentError(
            f"the adapter has states for layers that the model does not have: {', '.join(unknown)}"
        )
    chosen = [layer.name for layer in chosen_layers(model, config)]
    missing = [name for name in chosen if name not in states]
    if missing:
        raise AttangentError(
            f"the adapter has states for {len(states)} layers, but its settings select {len(chosen)} of "
            f"{type(model).__name__}; {missing[0]} has none: load the model that the adapter was made for"
        )


def _matches(pattern: str, name: str) -> bool:
    """Search for a pattern from a file with a time limit: some patterns take exponentially long."""
    import regex

    try:
        return regex.search(pattern, name, timeout=_MATCH_SECONDS) is not None
    except TimeoutError:
        raise AttangentError(
            f"layers {pattern!r} takes more than {_MATCH_SECONDS:g} s to match {name}: use a regular "
            "expression without nested repetitions"
        ) from None
    except regex.error as error:
        raise AttangentError(f"layers {pattern!r} is no regular expression: {error}") from None


def _using_interface(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if hasattr(module, "config") and _calls_interface(type(module)):
            yield name, module


@cache
def _calls_interface(kind: type[nn.Module]) -> bool:
    """Return whether the source of `forward` looks up the attention function; no attribute tells."""
    forward = kind.__dict__.get("forward") or getattr(kind, "forward", None)
    try:
        source = inspect.getsource(inspect.unwrap(forward)) if forward is not None else ""
    except (OSError, TypeError):
        return False
    return f"{_INTERFACE}.get_interface(" in source or f"{_INTERFACE}[" in source


def _layer(name: str, module: Any) -> AttentionLayer:
    config = module.config
    heads = _first(module, _HEADS) or _first(config, _HEADS)
    key_size = _first(module, _KEY_SIZES) or _first(config, _KEY_SIZES)
    if not key_size and heads:
        hidden = _first(module, ("embed_dim", "hidden_size")) or _first(config, ("hidden_size",)) or 0
        key_size = hidden // heads
    value_size = _first(module, _VALUE_SIZES) or _first(config, _VALUE_SIZES) or key_size
    if not heads or not key_size or not value_size:
        raise AttangentError(f"the head sizes of layer {name} ({type(module).__name__}) are unknown")
    groups = _first(module, ("num_key_value_groups",)) or 1
    kv_heads = _first(module, ("num_key_value_heads",)) or heads // groups
    return AttentionLayer(name, module, heads, kv_heads, key_size, value_size)


def _first(holder: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(holder, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)
