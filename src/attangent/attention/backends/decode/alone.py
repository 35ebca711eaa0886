"""A prefix without tokens: what attention to it alone gives."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.decode.native import Merge, MergeRows


class Inputs(NamedTuple):
    """What a map is given: (gain x - mean)/size of queries x, its masses then times e^level, for each head.

    mean is (heads or 1, d), size and level (heads or 1); `heads` is the number of heads of the queries.
    """

    mean: Tensor
    size: Tensor
    level: Tensor
    gain: float
    heads: int


class Alone(NamedTuple):
    """The prefix alone.

    attend: from queries (B, H, L, d) of at least float32 to u (B, H, L, dv) and l (B, H, L, 1), or
        (1, H, 1, 1).
    merge: compiled code that merges it into the attention of single queries.
    """

    attend: Callable[[Tensor], tuple[Tensor, Tensor]]
    merge: Merge | MergeRows | None

    def merged(self, out: Tensor, lse: Tensor, q: Tensor) -> Tensor:
        """The attention over tokens, out (B, H, L, dv) with logsumexp (B, H, L), merged with the prefix.

        `out` may be overwritten.
        """
        if self.merge is not None and self.merge(out, lse, q):
            return out
        if out.dtype == lse.dtype:
            u, level = self.attend(q)
            return out.lerp_(u, (level - lse.unsqueeze(-1)).sigmoid_())
        u, level = self.attend(q.to(lse.dtype))
        share = (level - lse.unsqueeze(-1)).sigmoid_()
        return torch.lerp(out.to(u.dtype), u, share).to(q.dtype)
