"""Learned features folded: u = (Z_0 + gelu(y) Z_1) / k_0, l = log k_0, the constant having all the mass."""

import math

import torch
from torch import Tensor

from attangent.attention.backends.decode.alone import Alone, Inputs
from attangent.attention.backends.decode.native import merge_learned


def fold_learned(weight: Tensor, bias: Tensor, Z: Tensor, masses: Tensor, given: Inputs) -> Alone | None:
    """With t = y/sqrt 2, gelu(y) = (t + t erf t)/sqrt 2; None where another feature has mass too.

    weight (heads or 1, r - 1, d) and bias (heads or 1, r - 1) with Z (heads, r, dv) and masses (heads, r).
    """
    if bool((masses[:, 0] <= 0).any()) or bool((masses[:, 1:] != 0).any()):
        return None
    weight, bias = weight.expand(len(Z), -1, -1), bias.expand(len(Z), -1)
    weight = weight / given.size[:, None, None] * math.sqrt(0.5)
    bias = (bias * math.sqrt(0.5) - (weight @ given.mean.unsqueeze(-1)).squeeze(-1)).unsqueeze(1)
    columns, Z = (given.gain * weight).mT, Z / masses[:, :1, None]
    constant = (masses[:, :1].log() + given.level[:, None]).unsqueeze(2)
    parts = columns, bias, Z[:, :1], Z[:, 1:] * math.sqrt(0.5)
    merge = merge_learned(*parts, constant, given.heads)
    columns, bias, first, rest = (part.repeat_interleave(given.heads // len(Z), dim=0) for part in parts)
    constant = constant.repeat_interleave(given.heads // len(Z), dim=0).unsqueeze(0)

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        single, length = len(x) == 1, x.shape[2]
        rows = x.squeeze(0) if single else x.transpose(0, 1).flatten(1, 2)
        t = torch.baddbmm(bias, rows, columns)
        u = torch.baddbmm(first, t.addcmul_(t, t.erf()), rest)
        return u.unsqueeze(0) if single else u.unflatten(1, (-1, length)).transpose(0, 1), constant

    return Alone(attend, merge)
