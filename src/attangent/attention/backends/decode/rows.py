"""A folded prefix for each row of a batch, together as one."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attangent.attention.backends.decode.alone import Alone
from attangent.attention.backends.decode.native import MergeRows


def together(groups: Sequence[tuple[Sequence[int], Alone | None]]) -> Alone:
    """The prefixes of groups of rows as one; None stands for rows without a prefix.

    Compiled code merges each row's own; torch attends group by group.
    """
    owners = {row: alone for rows, alone in groups for row in rows}
    each = [owners[row] for row in sorted(owners)]
    compiled = all(alone is None or alone.merge is not None for alone in each)
    merge = MergeRows([alone and alone.merge for alone in each]) if compiled else None  # type: ignore[misc]

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        found = [(rows, alone.attend(x[list(rows)])) for rows, alone in groups if alone is not None]
        levels = x.new_full((*x.shape[:3], 1), -math.inf)
        u = x.new_zeros(*x.shape[:3], found[0][1][0].shape[-1])
        for rows, (own, level) in found:
            u[list(rows)], levels[list(rows)] = own, torch.broadcast_to(level, (*own.shape[:3], 1))
        return u, levels

    return Alone(attend, merge)
