"""A prefix merged with any attention to tokens by compiled code, with a backward pass of its own.

With o and lse what the tokens gave, t = log(e^lse + phi(q) k) and out the merged output,

    do = e^(lse - t) grad,  dlse = e^(lse - t) grad . (o - out)

and the prefix's own gradients as in `fused.backward`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from attangent.attention.backends.cpu.prepare import prepare, takes
from attangent.attention.features.base import FeatureMap

Plainly = Callable[..., Tensor]
"""The same by operations of torch: of q, o, lse, Z and the masses."""


class Setting(NamedTuple):
    """What merging needs beside tensors that are differentiated."""

    features: FeatureMap
    gain: float
    cap: float
    plainly: Plainly


def can_merge(setting: Setting, q: Tensor, out: Tensor, lse: Tensor, Z: Tensor, mass: Tensor) -> bool:
    """Whether compiled code can take all of these, as float32.

    A query without tokens is left to operations of torch: the code gives its tokens a mass of e^-60 beside
    the largest weight of the prefix, which is too much where a map's largest feature has no mass.
    """
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    if q.numel() == 0 or q.dtype != torch.float32:
        return False
    laid_out = takes(q, out) and type(lse) is Tensor and lse.dtype == torch.float32
    with torch.no_grad():
        if not laid_out or bool(torch.isneginf(lse).any()):
            return False
        return prepare(setting.features, Z, mass, setting.gain, setting.cap) is not None


def merge(setting: Setting, q: Tensor, out: Tensor, lse: Tensor, Z: Tensor, mass: Tensor) -> Tensor:
    """(e^lse o + phi(q) Z) / (e^lse + phi(q) k), where `can_merge`."""
    return _Merge.apply(setting, q, out, lse, Z, mass, *setting.features.trained())


class _Merge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        setting: Setting,
        q: Tensor,
        out: Tensor,
        lse: Tensor,
        Z: Tensor,
        mass: Tensor,
        *trained: Tensor,
    ):
        prefix = prepare(setting.features, Z, mass, setting.gain, setting.cap)
        assert prefix is not None
        merged = out.clone()
        total, sign = prefix.forward(q, merged, lse, for_backward=True)
        ctx.save_for_backward(q, out, lse, Z, mass, *trained, merged, total, sign)
        ctx.setting = setting
        return merged

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, merged, total, sign = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            return None, *_differentiable(ctx.setting, inputs, wanted, grad)
        return None, *_gradients(ctx.setting, inputs, wanted, merged, total, sign, grad)


def _gradients(
    setting: Setting,
    inputs: list[Tensor],
    wanted: tuple[bool, ...],
    merged: Tensor,
    total: Tensor,
    sign: Tensor | None,
    grad: Tensor,
) -> tuple[Tensor | None, ...]:
    q, out, lse, Z, mass, *_ = inputs
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    keep = torch.exp(lse - total) if sign is None else torch.exp(lse - total) * sign
    of_lse = keep * torch.linalg.vecdot(grad, out - merged)
    of_q = torch.zeros_like(q) if wanted[0] else None
    prefix = prepare(setting.features, Z, mass, setting.gain, setting.cap)
    assert prefix is not None
    of_prefix = prefix.backward(q, merged, total, sign, grad, of_q)
    if setting.features.positive:
        of_prefix[1] = torch.where(mass < 0, -of_prefix[1], of_prefix[1])
    found = of_q, keep.unsqueeze(-1) * grad, of_lse, *of_prefix
    return tuple(each if want else None for each, want in zip(found, wanted, strict=True))


def _differentiable(
    setting: Setting, inputs: list[Tensor], wanted: tuple[bool, ...], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """For gradients of gradients. Views stand for the inputs, as what the tokens gave depends on q itself."""
    inputs = [*(tensor.view_as(tensor) for tensor in inputs[:5]), *inputs[5:]]
    merged = setting.plainly(*inputs[:5])
    chosen = [tensor for tensor, want in zip(inputs, wanted, strict=True) if want]
    found = iter(torch.autograd.grad(merged, chosen, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if want else None for want in wanted)
