"""Anchors folded into tokens: u = softmax(t) U and l = logsumexp(t) with t = q c + b, b the log masses.

Heads of different sizes are attended to in groups of like size by torch, each at its own size by compiled
code.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.decode.alone import Alone, Inputs
from attangent.attention.backends.decode.native import merge_anchors
from attangent.attention.backends.torch.tokens import FUSED
from attangent.attention.masks import Mask
from attangent.attention.ragged import Ragged, alike, stacked


class Tokens(NamedTuple):
    """The virtual tokens of one head: keys c (r, d), scaled; biases b (r); values U (r, dv)."""

    keys: Tensor
    bias: Tensor
    values: Tensor


def fold_anchors(keys: Tensor, Z: Tensor, masses: Tensor, given: Inputs) -> Alone | None:
    """Anchors (heads or 1, r, d) with Z (heads, r, dv) and masses (heads, r)."""
    if not _have_mass(Z, masses):
        return None
    keys = (keys / given.size[:, None, None] / math.sqrt(keys.shape[-1])).expand(len(Z), -1, -1)
    shift = given.level[:, None] - (keys @ given.mean.unsqueeze(-1)).squeeze(-1)
    U = Z / torch.where(masses == 0, 1, masses).unsqueeze(-1)
    parts = given.gain * keys, masses.log() + shift, U
    return _fold([Tokens(*each) for each in zip(*parts, strict=True)], given.heads)


def fold_ragged(prefix: Ragged, gain: float, heads: int, dtype: torch.dtype) -> Alone | None:
    """Heads of different sizes; None with a cap on the scores."""
    if prefix.softcap is not None:
        return None
    keys, Z, mass = (tensor.detach().to(dtype).split(prefix.sizes) for tensor in prefix.tokens())
    found = []
    for c, own, m in zip(keys, Z, mass, strict=True):
        m = m.abs()
        if not _have_mass(own[None], m[None]):
            return None
        U = own / torch.where(m == 0, 1, m).unsqueeze(-1)
        found.append(Tokens(c * (gain / math.sqrt(c.shape[-1])), m.log(), U))
    return _fold(found, heads)


def _have_mass(Z: Tensor, masses: Tensor) -> bool:
    """Whether every head has mass, and no token has a value without mass."""
    empty = masses == 0
    return not (bool(empty.all(dim=1).any()) or bool((Z[empty] != 0).any()))


def _fold(tokens: Sequence[Tokens], heads: int) -> Alone:
    sharing, groups = heads // len(tokens), alike([len(each.keys) for each in tokens])
    attends = [_attend([tokens[head] for head in group], sharing) for group in groups]
    columns = [each.keys.mT for each in tokens]
    merge = merge_anchors(
        columns, [each.bias.unsqueeze(0) for each in tokens], [each.values for each in tokens], heads
    )
    if len(groups) == 1:
        return Alone(attends[0], merge)
    places = [[head * sharing + i for head in group for i in range(sharing)] for group in groups]
    order = [head for own in places for head in own]
    back = sorted(range(len(order)), key=order.__getitem__)

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        parts = [one(x[:, own]) for one, own in zip(attends, places, strict=True)]
        u, level = (torch.cat(each, dim=1)[:, back] for each in zip(*parts, strict=True))
        return u, level

    return Alone(attend, merge)


def _attend(tokens: Sequence[Tokens], sharing: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Attention over the tokens of heads of like size, filled up with tokens that nobody sees."""
    keys, values = stacked([each.keys for each in tokens]), stacked([each.values for each in tokens])
    bias = stacked([each.bias for each in tokens], -math.inf).repeat_interleave(sharing, dim=0)
    fused, added = FUSED[keys.device.type], Mask(bias[None, :, None])

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        shape = len(x), -1, -1, -1
        u, lse, _ = fused.forward(x, keys.expand(shape), values.expand(shape), added, 1.0)
        return u, lse.unsqueeze(-1)

    return attend
