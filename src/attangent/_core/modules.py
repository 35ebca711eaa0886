"""Torch modules, whatever they compute."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def eval_mode(model: "nn.Module") -> Iterator[None]:
    """Put a model into eval mode, and restore the mode of every module: frozen parts may differ."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
