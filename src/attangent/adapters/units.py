"""The units of a layer: what `calibrate` measures and states take over."""

from typing import NamedTuple

import torch
from torch import Tensor

_LEAST_SCALE = 1e-6
_LEAST_REST = 1e-3
"""The least variance of the other directions, relative to the mean; fewer examples than directions have 0."""


class LayerUnits(NamedTuple):
    """What was measured of a layer: mean (heads, d), covariance (heads, d, d), the others (heads)."""

    mean: Tensor
    covariance: Tensor
    level: Tensor
    value_scale: Tensor

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the queries over tokens and coordinates."""
        variance = self.covariance.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
        return variance.clamp(min=_LEAST_SCALE**2).sqrt()


def widest(covariance: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(R, scale) such that (I - R'R)(q - mean)/scale varies in its `count` widest directions as in others.

    The mean variance over directions is then 1. R is (heads, count, d), scale (heads).
    """
    values, vectors = torch.linalg.eigh(covariance)
    kept = values.shape[-1] - count
    rest = values[:, :kept].mean(dim=-1, keepdim=True).clamp(min=_LEAST_SCALE**2)
    rest = torch.maximum(rest, _LEAST_REST * values.mean(dim=-1, keepdim=True))
    left = (rest / values[:, kept:].clamp(min=1e-30)).sqrt().clamp(max=1)
    return vectors.mT[:, kept:] * (1 - left).sqrt().unsqueeze(-1), rest.squeeze(-1).sqrt()
