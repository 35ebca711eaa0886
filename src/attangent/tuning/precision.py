"""Bases of few bits: weights in 8 bits by torchao, and classifiers in float32 on bases in bfloat16."""

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent.tuning.methods.classifier import is_head

Quantised = Literal["int8"]
_KEPT_WHOLE = "lm_head"


def check_quantised(quantised: str | None) -> None:
    if quantised is not None:
        check_choice("quantised", quantised, get_args(Quantised))


def quantise(model: Any, quantised: str | None) -> Any:
    """The weights of the linear layers below the head in 8 bits, with a scale for each output; None: as is.

    Activations stay as they are, so that gradients pass through.
    """
    if quantised is None:
        return model
    try:
        from torchao.quantization import (  # pyright: ignore[reportMissingImports]
            Int8WeightOnlyConfig,
            quantize_,
        )
    except ImportError:
        raise AttangentError("quantised weights need torchao: pip install attangent[quantised]") from None
    quantize_(model, Int8WeightOnlyConfig(), filter_fn=_is_below_the_head)
    return model


def _is_below_the_head(module: nn.Module, name: str) -> bool:
    return isinstance(module, nn.Linear) and not is_head(f"{name}.weight") and _KEPT_WHOLE not in name


def hold_head_in_float32(model: nn.Module, names: list[str]) -> None:
    """Let the classifier of a model in bfloat16 train in float32: small steps would be lost in rounding."""
    for name in names:
        head = getattr(model, name)
        head.float()
        for part in head.modules():
            if isinstance(part, nn.Linear):
                part.register_forward_pre_hook(_in_its_dtype)


def _in_its_dtype(module: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(one.to(module.weight.dtype) for one in given)


def check_gradients(model: nn.Module, batch: dict[str, Tensor]) -> None:
    """Refuse a quantised model through which no gradient passes, by one pass of this batch.

    A classifier above may get one all the same; what is trained below it must.
    """
    if all(type(parameter.data) is Tensor for parameter in model.parameters()):
        return
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    trained = [p for name, p in model.named_parameters() if p.requires_grad and not is_head(name)]
    with torch.enable_grad():
        logits = model(**inputs).logits
        reached = logits.requires_grad
        if reached and trained:
            reached = None not in torch.autograd.grad(logits.float().sum(), trained, allow_unused=True)
    if not reached:
        raise AttangentError(
            "no gradient passes through this quantised model: its activations are quantised too; give "
            "one whose weights alone are, or the model as it was"
        )
