"""A map in the units of its inputs: centred and scaled queries, features of a chosen size."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention.features.base import Affine, FeatureMap
from attangent.attention.shapes import (
    Evaluated,
    Features,
    HeadWeights,
    Inputs,
    Pulled,
    StateMass,
    StateZ,
)


class Calibrated(FeatureMap):
    """phi(x) = e^level inner((x - mean) / scale), with mean (heads, d), scale and level (heads).

    Weights of order one in `inner` then act with order one on every head, whatever the size of its queries
    and logits. The level acts in log space and cannot overflow.

    Args:
        inner: The map to calibrate.
        mean: Mean of the queries (heads, d); a buffer, not trained.
        scale: Size of the queries (heads), above 0; a buffer.
        level: Logarithm of the factor of the features (heads); a buffer.

    Raises:
        AttangentError: If a tensor has another shape or is not finite, or a scale is not above 0.

    Example:
        >>> from attangent.attention.features import Learned
        >>> inner = Learned.draw(dim=4, size=8, seed=0, heads=2)
        >>> Calibrated(inner, torch.zeros(2, 4), torch.ones(2), torch.zeros(2))(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 8])
    """

    name = "calibrated"
    mean: Tensor
    scale: Tensor
    level: Tensor

    def __init__(self, inner: FeatureMap, mean: Tensor, scale: Tensor, level: Tensor):
        super().__init__(inner.dim, inner.size)
        _check_units(inner, mean, scale, level)
        self.inner = inner
        self.positive = inner.positive
        for name, buffer in (("mean", mean), ("scale", scale), ("level", level)):
            self.register_buffer(name, buffer.detach().clone())

    def trained(self) -> tuple[Tensor, ...]:
        return self.inner.trained()

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if x.ndim > 2 and x.shape[-3] not in (1, len(self.scale)):
            raise AttangentError(
                f"x has shape {tuple(x.shape)}, expected (..., {len(self.scale)}, rows, {self.dim}): the "
                f"map is calibrated for {len(self.scale)} heads"
            )
        return self.inner(self._inputs(x)) * self._level(x).exp()

    def row_sizes(self, Z: StateZ, k: StateMass) -> StateMass | None:
        return self.inner.row_sizes(Z, k)

    def evaluate(self, x: Inputs, sizes: StateMass | None) -> Evaluated:
        w, shift = self.inner.evaluate(self._inputs(x), sizes)
        level = self._level(x)
        return w, level.expand(*w.shape[:-1], 1) if shift is None else shift + level

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        grad_x, of_map = self.inner.pullback(self._inputs(x), w, grad_w)
        return grad_x * self._factor(x), of_map

    def affine(self, dtype: torch.dtype = torch.float32) -> Affine | None:
        # W/scale and b - W mean/scale replace W and b
        inner = self.inner.affine(dtype)
        if inner is None or inner.weight is None or inner.level is not None:
            return None
        weight = inner.weight * self._factor(inner.weight)
        moved = -(weight @ self.mean.to(weight).unsqueeze(-1)).squeeze(-1)
        bias = moved if inner.bias is None else moved + inner.bias
        return Affine(inner.kind, weight, bias, self.level.to(weight))

    def affine_gradients(self, weight: HeadWeights, bias: Tensor) -> tuple[Tensor, ...]:
        moved = torch.baddbmm(weight, bias.unsqueeze(-1), self.mean.to(weight).unsqueeze(-2), alpha=-1)
        return self.inner.affine_gradients(moved * self._factor(weight), bias)

    def describe(self) -> dict[str, Any]:
        return {"inner": self.inner.name, "settings": self.inner.describe()}

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Any]) -> "Calibrated":
        from attangent.attention.features import BY_NAME

        units = {name: tensors[name] for name in ("mean", "scale", "level")}
        of_inner = {name.removeprefix("inner."): t for name, t in tensors.items() if name not in units}
        kind = BY_NAME.get(described["inner"])
        if kind is None or kind is cls:
            raise AttangentError(
                f"the inner map {described['inner']!r} is not known, expected one of {', '.join(BY_NAME)}"
            )
        return cls(kind.rebuild(described["settings"], of_inner), **units)

    def _factor(self, x: Tensor) -> Float[Tensor, "heads 1 1"]:
        return self.scale.to(x.dtype).reciprocal()[:, None, None]

    def _inputs(self, x: Inputs) -> Inputs:
        factor = self._factor(x)
        return torch.addcmul(-self.mean.to(x.dtype).unsqueeze(-2) * factor, x, factor)

    def _level(self, x: Tensor) -> Float[Tensor, "heads 1 1"]:
        return self.level.to(x.dtype)[:, None, None]


def _check_units(inner: FeatureMap, mean: Tensor, scale: Tensor, level: Tensor) -> None:
    heads = mean.shape[0] if mean.ndim else 0
    if mean.shape != (heads, inner.dim) or scale.shape != (heads,) or level.shape != (heads,):
        raise AttangentError(
            f"mean, scale and level are {tuple(mean.shape)}, {tuple(scale.shape)}, {tuple(level.shape)}, "
            f"expected (heads, {inner.dim}), (heads,), (heads,)"
        )
    if not all(torch.isfinite(tensor).all() for tensor in (mean, scale, level)) or (scale <= 0).any():
        raise AttangentError("mean, scale or level is not finite or scale not above 0")
