"""Find the weights of a Hugging Face model: attention projections, and linear modules by name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError

PROJECTIONS = ("q", "k", "v", "o")
MLP = "mlp"
_SEPARATE = (
    ("q_proj", "k_proj", "v_proj", "o_proj"),  # llama, qwen, mistral, gemma, vit
    ("q_proj", "k_proj", "v_proj", "out_proj"),  # opt, clip, gpt-neo, whisper, bart
    ("self.query", "self.key", "self.value", "output.dense"),  # bert, roberta, electra
    ("attention.query", "attention.key", "attention.value", "output.dense"),  # older image models
    ("q_lin", "k_lin", "v_lin", "out_lin"),  # distilbert
    ("q", "k", "v", "o"),  # t5
)
_JOINED = (("c_attn", "c_proj"), ("qkv_proj", "o_proj"))  # gpt2; phi3
_HEAD_SIZES = ("head_dim", "attention_head_size", "key_value_proj_dim")
_ATTENTION = ("attn", "attention")


@dataclass(frozen=True)
class Projection:
    """The outputs `start` to `stop` of a linear module, as a matrix (inputs, outputs)."""

    module: Any
    start: int
    stop: int

    @classmethod
    def of(cls, module: Any) -> "Projection":
        """Return all outputs of a module."""
        return cls(module, 0, _outputs(module))

    @property
    def weight(self) -> Tensor:
        """(inputs, outputs), a view: writing to it writes to the model."""
        weight = self.module.weight.detach()
        stored = weight if _is_conv1d(self.module) else weight.T
        return stored[:, self.start : self.stop]

    @property
    def bias(self) -> Tensor | None:
        """(outputs,), a view; None if the module has no bias."""
        bias = getattr(self.module, "bias", None)
        return None if bias is None else bias.detach()[self.start : self.stop]


@dataclass(frozen=True)
class AttentionWeights:
    """The projections of one attention layer; queries of `heads` heads share `key_heads` keys."""

    layer: int
    name: str
    projections: dict[str, Projection]
    head_size: int | None

    @property
    def heads(self) -> int:
        return self.projections["q"].weight.shape[1] // self._size

    @property
    def key_heads(self) -> int:
        return self.projections["k"].weight.shape[1] // self._size

    def head(self, name: str, head: int) -> tuple[Tensor, Tensor | None]:
        """Return weight (inputs, head size) and bias of q or k for query head `head`, as views."""
        index = head if name == "q" else head // (self.heads // self.key_heads)
        columns = slice(index * self._size, (index + 1) * self._size)
        projection = self.projections[name]
        return projection.weight[:, columns], None if projection.bias is None else projection.bias[columns]

    @property
    def _size(self) -> int:
        if self.head_size is None:
            raise AttangentError(
                f"the width of a head of {self.name} is unknown; use q and k instead of their product"
            )
        return self.head_size


def attention_weights(model: nn.Module, layers: Iterable[int] | None = None) -> list[AttentionWeights]:
    """Return the attention layers of a model in order, or those with the given indices."""
    blocks = []
    for name, module in model.named_modules():
        projections = _projections(module)
        if projections:
            blocks.append((name, projections))
    if not blocks:
        raise AttangentError(
            f"no attention was found in {type(model).__name__}, expected layers with one of "
            f"{'; '.join(', '.join(names) for names in (*_SEPARATE, *_JOINED))}"
        )
    chosen = range(len(blocks)) if layers is None else sorted(set(layers))
    if not chosen or not all(0 <= layer < len(blocks) for layer in chosen):
        raise AttangentError(f"layers are {list(chosen)}, expected some of 0 to {len(blocks) - 1}")
    attention = []
    for layer in chosen:
        name, projections = blocks[layer]
        attention.append(AttentionWeights(layer, name, projections, _head_size(model, name)))
        _check_weights(attention[-1])
    return attention


def named_projections(
    model: nn.Module, target: str, layers: Iterable[int] | None = None
) -> list[tuple[int, str, Projection]]:
    """Return (layer, module name, projection) of the linear modules that a target names, in order.

    "mlp" names all linear modules of the layers outside attention; any other target names the modules whose
    name is it or ends in it ("mlp.down_proj", "c_fc"). The layer is the first number in a module's name.
    """
    linear = [
        (layer, name, module)
        for name, module in model.named_modules()
        if (layer := _layer(name)) is not None and _is_linear(module)
    ]
    chosen = None if layers is None else set(layers)
    matches = [
        (layer, name, Projection.of(module))
        for layer, name, module in linear
        if _matches(name, target) and (chosen is None or layer in chosen)
    ]
    if not matches:
        where = "" if chosen is None else f" in the layers {sorted(chosen)}"
        endings = sorted({name.rsplit(".", 1)[-1] for _, name, _ in linear})
        raise AttangentError(
            f"no weights of {type(model).__name__} are named {target!r}{where}; its linear modules end in "
            f"{', '.join(endings) or 'nothing known'}"
        )
    return matches


def _projections(module: nn.Module) -> dict[str, Projection] | None:
    for names in _SEPARATE:
        modules = [_get(module, name) for name in names]
        if all(isinstance(inner, nn.Module) and hasattr(inner, "weight") for inner in modules):
            return {name: Projection.of(inner) for name, inner in zip(PROJECTIONS, modules, strict=True)}
    for joined, output in _JOINED:
        modules = [_get(module, joined), _get(module, output)]
        if all(isinstance(inner, nn.Module) for inner in modules) and _get(module, "q_attn") is None:
            return {**_split(module, modules[0]), "o": Projection.of(modules[1])}
    return None


def _split(attention: nn.Module, joined: Any) -> dict[str, Projection]:
    """Split one module into q, k and v; keys and values are narrower if heads share them."""
    outputs = _outputs(joined)
    group = int(getattr(attention, "num_key_value_groups", 1) or 1)
    keys = outputs // (group + 2)
    ends = (0, outputs - 2 * keys, outputs - keys, outputs)
    return {name: Projection(joined, ends[i], ends[i + 1]) for i, name in enumerate("qkv")}


def _outputs(module: Any) -> int:
    return module.weight.shape[1 if _is_conv1d(module) else 0]


def _is_conv1d(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D"  # transformers' linear layer that stores (inputs, outputs)


def _get(module: nn.Module, path: str) -> Any:
    inner: Any = module
    for name in path.split("."):
        inner = getattr(inner, name, None)
    return inner


def _head_size(model: nn.Module, block: str) -> int | None:
    """Return the head size that the attention module, or one directly inside it, declares."""
    modules = [model.get_submodule(block), *model.get_submodule(block).children()]
    sizes = [getattr(module, name, None) for module in modules for name in _HEAD_SIZES]
    return next((int(size) for size in sizes if isinstance(size, int)), None)


def _check_weights(block: AttentionWeights) -> None:
    for name, projection in block.projections.items():
        weight = projection.module.weight
        if not isinstance(weight, Tensor) or not torch.is_floating_point(weight) or weight.is_meta:
            raise AttangentError(
                f"{name} of {block.name} has weights of type {getattr(weight, 'dtype', type(weight))} on "
                f"{getattr(weight, 'device', 'no device')}, expected floating-point numbers in memory; load "
                "the model without quantisation"
            )


def _matches(name: str, target: str) -> bool:
    if target == MLP:
        return not any(word in piece.lower() for piece in name.split(".") for word in _ATTENTION)
    return name == target or name.endswith("." + target)


def _layer(name: str) -> int | None:
    number = re.search(r"\.(\d+)\.", f".{name}.")
    return int(number.group(1)) if number else None


def _is_linear(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    is_matrix = isinstance(weight, Tensor) and weight.ndim == 2 and torch.is_floating_point(weight)
    return is_matrix and not isinstance(module, nn.Embedding)
