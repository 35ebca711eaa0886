"""Kernels by multiplying the features themselves: `gemm` all of them, `syrk` the upper blocks only."""

from itertools import pairwise

import torch
from torch import Tensor

from attangent.kernels.factors import block_size, blocks
from attangent.kernels.tangent import Layout, Tangent

_BLOCK_BYTES = 16 * 2**20
_GROUPS = 8
"""Row groups of `syrk`: 8 cost 9/16 of the multiplications; more make the products too small to be fast."""


class Gemm:
    """Sum over r of G[:, r] G2[:, r]' with every entry computed."""

    def sums(self, left: Tangent, right: Tangent | None) -> list[Tensor]:
        other = right or left
        total = left.outputs.new_zeros(left.rows, other.rows)
        direct = _empty_direct(left, right)
        for block in _blocks(left, other):
            self._add_block(left, right, block, total, direct)
        return [total, *direct]

    def _add_block(
        self, left: Tangent, right: Tangent | None, block: slice, total: Tensor, direct: list[Tensor]
    ) -> None:
        G = left.features(block).flatten(0, 1)
        G2 = G if right is None else right.features(block).flatten(0, 1)
        self._add(total, G, G2)
        if left.direct is not None:
            A = left.direct_features(block)
            A2 = A if right is None else right.direct_features(block)
            for have, one, two in zip(direct, (A, G, G2), (A2, A2, A), strict=False):
                have.addmm_(one, two.T)

    def _add(self, total: Tensor, G: Tensor, G2: Tensor) -> None:
        total.addmm_(G, G2.T)

    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor:
        other = right or left
        kernel = sums[0].view(left.d_out, left.points, other.d_out, other.points)
        kernel.mul_((left.inputs @ other.inputs.T / left.width)[:, None, :])
        if left.direct is not None:
            C, C2 = _shaped(left, other, *sums[2:])
            for k in range(left.d_out):
                kernel[k] += direct_rows(left, other, k, 0, C, C2, sums[1]).transpose(0, 1)
        return sums[0]

    def entries(self, left: Layout, right: Layout | None) -> tuple[int, int]:
        other = right or left
        n, n2 = left.points, other.points
        width = min(left.m, _block_size(left, other))
        features = width * (left.rows + n + (0 if right is None else other.rows + n2))
        direct = sum(rows * columns for rows, columns in _direct_shapes(left, right))
        return left.rows * other.rows + direct, max(features, n * n2 + 2 * n * other.rows)


class Syrk(Gemm):
    """The symmetric case by row groups: each group against itself and those below, then mirrored."""

    def _add(self, total: Tensor, G: Tensor, G2: Tensor) -> None:
        for group in _groups(len(G)):
            below = slice(group.start, None)
            total[group, below].addmm_(G[group], G[below].T)

    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor:
        total = sums[0]
        for group in _groups(len(total)):
            total[group.stop :, group] = total[group, group.stop :].T
        return super().finish(left, right, sums)


def _shaped(left: Tangent, other: Tangent, C: Tensor, C2: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """C[k, i, j] = sum_r G[k, i, r] A2[j, r], C2[l, j, i] = sum_r G2[l, j, r] A[i, r]: one if symmetric."""
    shaped = C.view(left.d_out, left.points, -1)
    return shaped, shaped if C2 is None else C2.view(other.d_out, other.points, -1)


def direct_rows(
    left: Tangent, other: Tangent, k: int, first: int, C: Tensor, C2: Tensor, AA: Tensor
) -> Tensor:
    """What the direct part adds to the kernel's rows of output k, for outputs l >= first (l, n, n2).

    x_il C[k, i, j] + x_jk C2[l, j, i] + delta_kl (A A2')_ij, all divided by the width.
    """
    added = left.inputs.T[first:, :, None] * C[k]
    added += other.inputs[:, k] * C2[first:].transpose(1, 2)
    added[k - first] += AA
    return added.div_(left.width)


def _empty_direct(left: Tangent, right: Tangent | None) -> list[Tensor]:
    """Room for A A2', G A2' and, unless it is the same, G2 A'."""
    return [left.outputs.new_zeros(shape) for shape in _direct_shapes(left.layout, right and right.layout)]


def _direct_shapes(left: Layout, right: Layout | None) -> list[tuple[int, int]]:
    n, n2 = left.points, (right or left).points
    if not left.direct:
        return []
    symmetric = [(n, n2), (left.rows, n2)]
    return symmetric if right is None else [*symmetric, (right.rows, n)]


def _blocks(left: Tangent, other: Tangent) -> list[slice]:
    return list(blocks(left.m, _block_size(left.layout, other.layout)))


def _block_size(left: Layout, other: Layout) -> int:
    return block_size(max(left.rows, other.rows), _BLOCK_BYTES, left.itemsize)


def _groups(rows: int) -> list[slice]:
    edges = torch.linspace(0, rows, min(_GROUPS, rows) + 1).long().tolist()
    return [slice(start, stop) for start, stop in pairwise(edges)]
