"""Three ways to sum a kernel over neurons: `gemm` and `syrk` multiply features, `pairs` multiplies products.

`pairs` uses that, with u_ij = P[i] * P2[j] over the neurons, the sum of G[k, i] * G2[l, j] is

    u_ij.(v_k v_l) - mu_ik u_ij.v_l - mu2_jl (u_ij.v_k - mu_ik u_ij.1),

so that one matrix of rows {v_k v_l (k <= l), v_k, 1} times one of rows u_ij (i <= j if both sides are the
same points) holds the whole kernel. The direct term needs the rows {s v_k, s} as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from attangent.kernels.tangent import Layout, Tangent, block_size, blocks

_BLOCK_BYTES = 16 * 2**20
_PAIR_BLOCK_BYTES = 4 * 2**20
_TILE_ROWS = 1024
_GROUPS = 8
"""Row groups of `syrk`: 8 cost 9/16 of the multiplications; more make the products too small to be fast."""


class Gemm:
    """Sum over r of G[:, r] G2[:, r]', computing every entry."""

    def sums(self, left: Tangent, right: Tangent | None) -> list[Tensor]:
        """Return the sum of feature products and, if there is a direct term, A A2', G A2' and G2 A'."""
        other = right or left
        total = left.outputs.new_zeros(left.rows, other.rows)
        shapes = _direct_shapes(left.layout, right and right.layout)
        direct = [left.outputs.new_zeros(shape) for shape in shapes]
        for block in blocks(left.m, _block_size(left.layout, other.layout)):
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
            # The symmetric case has two entries in `direct`: G2 A' equals G A2' there.
            for have, first, second in zip(direct, (A, G, G2), (A2, A2, A), strict=False):
                have.addmm_(first, second.T)

    def _add(self, total: Tensor, G: Tensor, G2: Tensor) -> None:
        total.addmm_(G, G2.T)

    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor:
        """Scale the sums by the products of the points and add the direct term, in place."""
        other = right or left
        kernel = sums[0].view(left.d_out, left.points, other.d_out, other.points)
        # x_i.x_j does not depend on the neuron, so that it multiplies the sums and not every term.
        kernel.mul_((left.inputs @ other.inputs.T / left.width)[:, None, :])
        if left.direct is not None:
            C = sums[2].view(left.d_out, left.points, -1)  # C[k, i, j] = sum_r G[k, i, r] A2[j, r]
            C2 = C if right is None else sums[3].view(other.d_out, other.points, -1)
            for k in range(left.d_out):
                kernel[k] += _direct_rows(left, other, k, 0, C, C2, sums[1]).transpose(0, 1)
        return sums[0]

    def entries(self, left: Layout, right: Layout | None) -> tuple[int, int]:
        """Return how many numbers the sums hold, and how many more exist at the peak."""
        other = right or left
        n = left.points
        n2 = other.points
        width = min(left.m, _block_size(left, other))
        features = width * (left.rows + n + (0 if right is None else other.rows + n2))
        direct = sum(rows * columns for rows, columns in _direct_shapes(left, right))
        return left.rows * other.rows + direct, max(features, n * n2 + 2 * n * other.rows)


class Syrk(Gemm):
    """The symmetric case by row groups: each group times itself and those below, then mirrored."""

    def _add(self, total: Tensor, G: Tensor, G2: Tensor) -> None:
        # torch exposes no BLAS syrk; a few GEMMs on the upper block triangle come close to it.
        for group in _groups(len(G)):
            below = slice(group.start, None)
            total[group, below].addmm_(G[group], G[below].T)

    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor:
        """Mirror the upper blocks, then finish as `gemm` does."""
        total = sums[0]
        for group in _groups(len(total)):
            total[group.stop :, group] = total[group, group.stop :].T
        return super().finish(left, right, sums)


class Pairs:
    """The kernel from sums over neurons of (products of values, products of gates)."""

    def sums(self, left: Tangent, right: Tangent | None) -> list[Tensor]:
        """Return one matrix (products of values, pairs of points)."""
        n2 = (right or left).points
        size = _pair_block_size(left.layout, n2)
        products = _ProductRows.of(left.layout)
        total = left.outputs.new_zeros(products.total, _pairs(left.points, n2, symmetric=right is None))
        # One buffer for all tiles: allocating it per tile costs more than filling it.
        gates = left.outputs.new_empty(_TILE_ROWS + n2, min(size, left.m))
        shift = _shift(left, right)
        for block in blocks(left.m, size):
            P = left.gate(block)
            P2 = P if right is None else right.gate(block)
            values = _value_products(left, products, shift, block)
            for tile, pairs in _tiles(left.points, n2, symmetric=right is None):
                buffer = gates[: pairs.stop - pairs.start, : P.shape[1]]
                u = _gate_products(P, P2, tile, right is None, out=buffer)
                total[:, pairs].addmm_(values, u.T)
        return [total]

    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor:
        """Assemble the kernel output by output; in the symmetric case only k <= l, then mirrored."""
        assembly = _Assembly(left, right, sums[0])
        n = left.points
        n2 = assembly.other.points
        d = left.d_out
        kernel = left.outputs.new_empty(d, n, d, n2)
        for k in range(d):
            first = k if right is None else 0
            rows = assembly.rows(k, first)  # (l, i, j)
            kernel[k, :, first:] = rows.transpose(0, 1)
            # K[(l, j), (k, i)] = K[(k, i), (l, j)]: mirror what is computed for l >= k.
            if right is None:
                kernel[first:, :, k] = rows.transpose(1, 2)
        return kernel.view(d * n, d * n2)

    def entries(self, left: Layout, right: Layout | None) -> tuple[int, int]:
        """Return how many numbers the sums hold, and how many more exist at the peak."""
        other = right or left
        n = left.points
        n2 = other.points
        products = _ProductRows.of(left).total
        workspace = min(left.m, _pair_block_size(left, n2)) * (_TILE_ROWS + 2 * n2 + n + 2 * products)
        temporaries = 3 + left.centred + 4 * left.direct
        finish = left.rows * other.rows + temporaries * n * other.rows + 3 * n * n2
        return products * _pairs(n, n2, symmetric=right is None), max(workspace, finish)


@dataclass(frozen=True)
class _ProductRows:
    """How many rows of each kind the products of values have, in this order."""

    quadratic: int
    linear: int
    direct: int

    @property
    def total(self) -> int:
        return self.quadratic + self.linear + self.direct

    @classmethod
    def of(cls, layout: Layout) -> "_ProductRows":
        d = layout.d_out
        linear = d + 1 if layout.centred or layout.direct else 0
        return cls(d * (d + 1) // 2, linear, d + 1 if layout.direct else 0)


class _Assembly:
    """Rows of the kernel from sums over pairs."""

    def __init__(self, left: Tangent, right: Tangent | None, total: Tensor):
        self.left = left
        self.other = right or left
        self.total = total
        self.products = _ProductRows.of(left.layout)
        self.scale = left.inputs @ self.other.inputs.T / left.width
        shift = _shift(left, right)
        self.mu = left.mu - shift
        self.mu2 = self.other.mu - shift
        self.index = _symmetric_index(left.points).to(total.device) if right is None else None
        start = self.products.quadratic
        d = left.d_out
        if self.products.linear:
            self.linear = self._full(start, start + d)
            self.ones = self._full(start + d, start + d + 1)[0]
        if self.products.direct:
            start += self.products.linear
            signed = self._full(start, start + d)
            sign = self._full(start + d, start + d + 1)[0]
            self.C = signed - self.mu.T[:, :, None] * sign  # (k, i, j)
            self.C2 = (signed - self.mu2.T[:, None, :] * sign).transpose(1, 2)  # (l, j, i)

    def _full(self, start: int, stop: int) -> Tensor:
        """Return rows of the sums with the pairs expanded to (rows, n, n2)."""
        rows = self.total[start:stop]
        if self.index is not None:
            rows = rows.index_select(1, self.index)
        return rows.view(stop - start, self.left.points, self.other.points)

    def rows(self, k: int, first: int) -> Tensor:
        """Return the kernel's rows of output k for outputs l >= first (l, n, n2)."""
        rows = self._quadratic(k, first)
        if self.products.linear:
            rows -= self.mu[:, k, None] * self.linear[first:]
            rows -= self.mu2.T[first:, None, :] * (self.linear[k] - self.mu[:, k, None] * self.ones)
        rows *= self.scale
        if self.products.direct:
            rows += _direct_rows(self.left, self.other, k, first, self.C, self.C2, self.ones)
        return rows

    def _quadratic(self, k: int, first: int) -> Tensor:
        d = self.left.d_out
        start = k * d - k * (k - 1) // 2  # index of the pairs (k, k), (k, k + 1), ...
        later = self._full(start, start + d - k)
        if first == k:
            # `rows` writes in place; index_select has copied already.
            return later.clone() if self.index is None else later
        earlier = [self._full(at, at + 1) for at in (l * d - l * (l - 1) // 2 + k - l for l in range(k))]
        return torch.cat([*earlier, later])


def _direct_rows(
    left: Tangent, other: Tangent, k: int, first: int, C: Tensor, C2: Tensor, AA: Tensor
) -> Tensor:
    """The direct term of the kernel's rows of output k, for outputs l >= first (l, n, n2).

    x_il C[k, i, j] + x_jk C2[l, j, i] + delta_kl (A A2')_ij, all divided by the width.
    """
    added = left.inputs.T[first:, :, None] * C[k]
    added += other.inputs[:, k] * C2[first:].transpose(1, 2)
    added[k - first] += AA
    return added.div_(left.width)


def _direct_shapes(left: Layout, right: Layout | None) -> list[tuple[int, int]]:
    """Shapes of A A2', G A2' and, unless it is the same, G2 A'."""
    if not left.direct:
        return []
    n = left.points
    n2 = (right or left).points
    symmetric = [(n, n2), (left.rows, n2)]
    return symmetric if right is None else [*symmetric, (right.rows, n)]


def _block_size(left: Layout, other: Layout) -> int:
    return block_size(max(left.rows, other.rows), _BLOCK_BYTES, left.itemsize)


def _groups(rows: int) -> list[slice]:
    edges = torch.linspace(0, rows, min(_GROUPS, rows) + 1).long().tolist()
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _pairs(n: int, n2: int, symmetric: bool) -> int:
    return n * (n + 1) // 2 if symmetric else n * n2


def _pair_block_size(left: Layout, n2: int) -> int:
    return block_size(_TILE_ROWS + n2, _PAIR_BLOCK_BYTES, left.itemsize, high=512)


def _tiles(n: int, n2: int, symmetric: bool) -> Iterator[tuple[range, slice]]:
    """Yield points i in tiles of about _TILE_ROWS pairs (i, j), with the columns of those pairs."""
    start = 0
    row = 0
    rows = 0
    for i in range(n):
        rows += n2 - i if symmetric else n2
        if rows >= _TILE_ROWS or i == n - 1:
            yield range(start, i + 1), slice(row, row + rows)
            start = i + 1
            row += rows
            rows = 0


def _gate_products(P: Tensor, P2: Tensor, tile: range, symmetric: bool, out: Tensor) -> Tensor:
    # Row by row: in the symmetric case every point has one pair less, which no single broadcast covers.
    row = 0
    for i in tile:
        first = i if symmetric else 0
        stop = row + P2.shape[0] - first
        torch.mul(P[i], P2[first:], out=out[row:stop])
        row = stop
    return out


def _value_products(tangent: Tangent, rows: _ProductRows, shift: Tensor, block: slice) -> Tensor:
    v = tangent.values(block) - shift[:, None]
    d, size = v.shape
    products = v.new_empty(rows.total, size)
    row = 0
    for k in range(d):
        torch.mul(v[k], v[k:], out=products[row : row + d - k])
        row += d - k
    if rows.linear:
        products[row : row + d] = v
        products[row + d] = 1
        row += d + 1
    if tangent.direct is not None:
        s = tangent.direct[block]
        products[row : row + d] = v * s
        products[row + d] = s
    return products


def _shift(left: Tangent, right: Tangent | None) -> Tensor:
    """The mean centre: subtracting it from values and centres changes no sum and avoids cancellation."""
    if left.centre is None:
        return left.outputs.new_zeros(left.d_out)
    return left.mu.mean(dim=0) if right is None else (left.mu.mean(dim=0) + right.mu.mean(dim=0)) / 2


def _symmetric_index(n: int) -> Tensor:
    """The column of the pair (min, max) among the pairs i <= j, per (i, j) (n n,)."""
    index = torch.empty(n, n, dtype=torch.long)
    upper = torch.triu_indices(n, n)
    order = torch.arange(upper.shape[1])
    index[upper[0], upper[1]] = order
    index[upper[1], upper[0]] = order
    return index.reshape(-1)
