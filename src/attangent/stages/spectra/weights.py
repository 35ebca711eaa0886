"""Where a Hugging Face model keeps the projections of its attention, as matrices (inputs, outputs)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError

PARTS = ("q", "k", "v", "o")
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


@dataclass(frozen=True)
class Projection:
    """One of q, k, v, o: the outputs `start` to `stop` of a linear module."""

    module: Any
    start: int
    stop: int

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The parameters it is part of."""
        return tuple(t for t in (self.module.weight, getattr(self.module, "bias", None)) if t is not None)

    @property
    def weight(self) -> Tensor:
        """(inputs, outputs), a view: what is written to it is written to the model."""
        weight = self.module.weight.detach()
        stored = weight if _is_conv1d(self.module) else weight.T
        return stored[:, self.start : self.stop]

    @property
    def bias(self) -> Tensor | None:
        """(outputs), a view, where the module has one."""
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

    def head(self, part: str, head: int) -> tuple[Tensor, Tensor | None]:
        """Weight (inputs, head size) and bias of q or k as query head `head` sees them, as views."""
        place = head if part == "q" else head // (self.heads // self.key_heads)
        columns = slice(place * self._size, (place + 1) * self._size)
        projection = self.projections[part]
        return projection.weight[:, columns], None if projection.bias is None else projection.bias[columns]

    @property
    def _size(self) -> int:
        if self.head_size is None:
            raise AttangentError(
                f"{self.name} does not say how wide a head is; edit q and k instead of their product"
            )
        return self.head_size


def attention_weights(model: nn.Module, layers: Iterable[int] | None = None) -> list[AttentionWeights]:
    """The attention layers of the model in their order, or those numbered `layers` from 0."""
    blocks = [(name, found) for name, module in model.named_modules() if (found := _projections(module))]
    if not blocks:
        raise AttangentError(
            f"no attention was found in {type(model).__name__}: known are layers with "
            f"{'; '.join(', '.join(names) for names in (*_SEPARATE, *_JOINED))}"
        )
    wanted = range(len(blocks)) if layers is None else sorted(set(layers))
    if not wanted or not all(0 <= layer < len(blocks) for layer in wanted):
        raise AttangentError(f"layers {list(wanted)} were asked for, expected some of 0 to {len(blocks) - 1}")
    found = [
        AttentionWeights(layer, blocks[layer][0], blocks[layer][1], _head_size(model, blocks[layer][0]))
        for layer in wanted
    ]
    for block in found:
        _check_weights(block)
    return found


def _projections(module: nn.Module) -> dict[str, Projection] | None:
    for names in _SEPARATE:
        parts = [_get(module, name) for name in names]
        if all(isinstance(part, nn.Module) and hasattr(part, "weight") for part in parts):
            return {part: _whole(found) for part, found in zip(PARTS, parts, strict=True)}
    for joined, output in _JOINED:
        parts = _get(module, joined), _get(module, output)
        if all(isinstance(part, nn.Module) for part in parts) and _get(module, "q_attn") is None:
            return {**_split(module, parts[0]), "o": _whole(parts[1])}
    return None


def _whole(module: Any) -> Projection:
    return Projection(module, 0, _outputs(module))


def _split(attention: nn.Module, joined: Any) -> dict[str, Projection]:
    """q, k, v lie beside each other; keys and values are narrower where heads share them."""
    outputs, group = _outputs(joined), int(getattr(attention, "num_key_value_groups", 1) or 1)
    keys = outputs // (group + 2)
    ends = (0, outputs - 2 * keys, outputs - keys, outputs)
    return {part: Projection(joined, ends[i], ends[i + 1]) for i, part in enumerate("qkv")}


def _outputs(module: Any) -> int:
    return module.weight.shape[1 if _is_conv1d(module) else 0]


def _is_conv1d(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D"  # transformers' linear layer that stores (inputs, outputs)


def _get(module: nn.Module, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _head_size(model: nn.Module, block: str) -> int | None:
    """As the attention module, or the one inside it, says."""
    modules = [model.get_submodule(block), *model.get_submodule(block).children()]
    sizes = [getattr(module, name, None) for module in modules for name in _HEAD_SIZES]
    return next((int(size) for size in sizes if isinstance(size, int)), None)


def _check_weights(block: AttentionWeights) -> None:
    for part, projection in block.projections.items():
        weight = projection.module.weight
        if not isinstance(weight, Tensor) or not torch.is_floating_point(weight) or weight.is_meta:
            raise AttangentError(
                f"{part} of {block.name} has weights of type {getattr(weight, 'dtype', type(weight))} on "
                f"{getattr(weight, 'device', 'no device')}, expected floating-point numbers in memory; load "
                "the model without quantisation"
            )
