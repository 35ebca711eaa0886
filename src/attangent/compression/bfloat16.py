"""Matrix products in bfloat16 on processors that have instructions for them.

They take half the time of float32 products and have three digits. That is enough to find which tokens matter
and to write the text on which states are fitted, because the target of a fit is computed exactly from the
queries. Fitted states and reported effects are computed in the model's dtype. Quiz answers use bfloat16, both
with the full and with the compressed prompt.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent.compression.memory import page_out

_SMALLEST = 1 << 16
"""Size of a weight below which converting the inputs takes longer than the product saves."""


Halved = dict[nn.Linear, Tensor]
"""Weights in bfloat16 by layer."""


@dataclass(frozen=True)
class HalvedProduct:
    """The `forward` of a linear layer with the weight in bfloat16."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product in float32."""
        result = F.linear(x.bfloat16(), self.weight).float()
        return result if self.bias is None else result + self.bias


@contextmanager
def fast_products(model: Any, halved: Halved | None = None) -> Iterator[None]:
    """Let the linear layers of a model multiply in bfloat16 if the processor is faster that way.

    Args:
        model: The model; its weights must not change between uses of one `halved`.
        halved: A cache of the weights in bfloat16.
    """
    halved = {} if halved is None else halved
    layers = [layer for layer in model.modules() if has_fast_products() and _is_large(layer)]
    page_out(_halve([layer for layer in layers if layer not in halved], halved))
    for layer in layers:
        layer.forward = HalvedProduct(halved[layer], layer.bias)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def has_fast_products() -> bool:
    """Return whether the processor has bfloat16 products."""
    return getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()


def _is_large(layer: nn.Module) -> bool:
    """Return whether this is a large plain float32 linear layer on the CPU with the original `forward`."""
    if type(layer) is not nn.Linear or "forward" in vars(layer):
        return False
    weight = layer.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= _SMALLEST


def _halve(layers: Sequence[nn.Linear], halved: Halved) -> Iterator[Tensor]:
    """Convert the weights; yield each so that it can be dropped before the next one is converted."""
    for layer in layers:
        halved[layer] = layer.weight.detach().bfloat16()
        yield layer.weight
