"""Products of activations and weights in bfloat16, where the processor has instructions for them.

They take half the time of those in float32 and have three digits: enough to find which tokens matter, and for
text on which states are fitted, since what a state should give is computed exactly from the queries as they
are. What is kept is computed in the model's own numbers, and so is the effect that is reported; the questions
that a prompt is asked are answered with these products, with the full prompt as with the compressed one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_SMALLEST = 1 << 16
"""Numbers of a weight; below this to convert what it is multiplied with takes longer than the product."""


Halved = dict[nn.Linear, Tensor]
"""Weights of layers in bfloat16."""


@contextmanager
def fast_products(model: Any, halved: Halved | None = None) -> Iterator[None]:
    """Meanwhile the model's linear layers multiply in bfloat16; nothing changes where that gains no time.

    halved: the weights in bfloat16 are put here, and found here the next time; the model's must not change.
    """
    halved = {} if halved is None else halved
    layers = [layer for layer in model.modules() if has_fast_products() and _is_large(layer)]
    for layer in layers:
        if layer not in halved:
            halved[layer] = layer.weight.detach().bfloat16()
        layer.forward = _product(layer, halved[layer])
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def has_fast_products() -> bool:
    """Whether the processor multiplies numbers in bfloat16."""
    return getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()


def _is_large(layer: nn.Module) -> bool:
    """A plain linear layer in float32 on the processor, without hooks of others in place of its product."""
    if type(layer) is not nn.Linear or "forward" in vars(layer):
        return False
    weight = layer.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= _SMALLEST


def _product(layer: nn.Linear, weight: Tensor) -> Callable[[Tensor], Tensor]:
    def product(x: Tensor) -> Tensor:
        found = F.linear(x.bfloat16(), weight).float()
        return found if layer.bias is None else found + layer.bias

    return product
