"""Heads with states of different sizes: which queries and tokens belong to which part, and back together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention.prefix import Weights
from attangent.attention.ragged import Ragged


class HeadsPart(NamedTuple):
    """The prefix of some heads, with the places of their query heads and of the token heads these see."""

    queries: Any
    keys: Any
    prefix: Weights

    def masked(self, mask: Any) -> Any:
        """The mask of these query heads."""
        per_head = isinstance(mask, Tensor) and mask.ndim > 2 and mask.shape[-3] > 1
        return mask[..., self.queries, :, :] if per_head else mask


def split_heads(state: Ragged, heads: int, token_heads: int) -> list[HeadsPart]:
    """The parts of a ragged prefix for `heads` query heads, of which consecutive ones share a token head."""
    if heads % state.heads or heads % token_heads:
        raise AttangentError(f"the state has {state.heads} heads and q has {heads}, expected a divisor")
    found, groups, sharing = [], heads // state.heads, heads // token_heads
    for own, prefix in state.parts():
        queries = [head * groups + i for head in own for i in range(groups)]
        if groups % sharing == 0:
            keys = [head * groups // sharing + i for head in own for i in range(groups // sharing)]
        elif sharing % groups == 0:
            keys = [head * groups // sharing for head in own]
        else:
            raise AttangentError(
                f"the state has {state.heads} heads and the tokens {token_heads}, expected that one number "
                "divides the other"
            )
        found.append(HeadsPart(_place(queries), _place(keys), prefix))
    return found


def joined_heads(outs: Sequence[Tensor], parts: Sequence[HeadsPart]) -> Tensor:
    """The outputs of all parts with the heads in their order."""
    if len(outs) == 1:
        return outs[0]
    order = [head for part in parts for head in _places(part.queries)]
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.cat(list(outs), dim=1)[:, back]


def _place(heads: list[int]) -> slice | list[int]:
    """A slice where the heads are neighbours, which saves a copy."""
    first, last = heads[0], heads[-1]
    return slice(first, last + 1) if heads == list(range(first, last + 1)) else heads


def _places(place: slice | list[int]) -> list[int]:
    return list(range(place.start, place.stop)) if isinstance(place, slice) else place
