"""Weights by name: the feed-forward matrices of a layer, or any linear module."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from attangent._core.errors import AttangentError
from attangent.stages.spectra.weights import Projection

MLP = "mlp"
_ATTENTION = ("attn", "attention")


def named_projections(
    model: nn.Module, target: str, layers: Iterable[int] | None = None
) -> list[tuple[int, str, Projection]]:
    """(layer, module, projection) of the linear modules that a target names, in the model's order.

    "mlp" names all linear modules of the layers outside attention; any other target those whose name is it or
    ends in it ("mlp.down_proj", "c_fc"). The layer is the first number in a module's name.
    """
    wanted = None if layers is None else set(layers)
    found = []
    for name, module in model.named_modules():
        layer = _layer(name)
        if layer is None or not _is_linear(module) or not _named(name, target):
            continue
        if wanted is None or layer in wanted:
            found.append((layer, name, Projection(module, 0, _outputs(module))))
    if not found:
        where = "" if wanted is None else f" in the layers {sorted(wanted)}"
        raise AttangentError(
            f"no weights of {type(model).__name__} are named {target!r}{where}; its linear modules end in "
            f"{', '.join(sorted(_endings(model))) or 'nothing known'}"
        )
    return found


def _named(name: str, target: str) -> bool:
    if target == MLP:
        return not any(part in piece.lower() for piece in name.split(".") for part in _ATTENTION)
    return name == target or name.endswith("." + target)


def _layer(name: str) -> int | None:
    number = re.search(r"\.(\d+)\.", f".{name}.")
    return int(number.group(1)) if number else None


def _is_linear(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return (
        isinstance(weight, torch.Tensor)
        and weight.ndim == 2
        and torch.is_floating_point(weight)
        and not isinstance(module, nn.Embedding)
    )


def _outputs(module: Any) -> int:
    return module.weight.shape[1 if type(module).__name__ == "Conv1D" else 0]


def _endings(model: nn.Module) -> set[str]:
    names = [
        name for name, module in model.named_modules() if _layer(name) is not None and _is_linear(module)
    ]
    return {name.rsplit(".", 1)[-1] for name in names}
