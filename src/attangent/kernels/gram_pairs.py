"""Kernels from unordered pairs: products of gates for pairs of points, of values for pairs of outputs.

With u_ij = P[i] * P2[j] over the neurons, the sum of G[k, i] * G2[l, j] is

    u_ij.(v_k v_l) - mu_ik u_ij.v_l - mu2_jl (u_ij.v_k - mu_ik u_ij.1),

so that one matrix of rows {v_k v_l (k <= l), v_k, 1} times one of rows u_ij (i <= j where both sides are the
same points) holds the whole kernel. The direct part needs the rows {s v_k, s} as well. The values are shifted
by the mean centre first, which changes nothing in the sum and loses fewer digits to cancellation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.kernels.factors import block_size, blocks
from attangent.kernels.gram_dense import direct_rows
from attangent.kernels.tangent import Layout, Tangent

_BLOCK_BYTES = 4 * 2**20
_TILE_ROWS = 1024


@dataclass(frozen=True)
class _Kinds:
    """Where each kind of product of values stands among the rows of the sums."""

    quadratic: int
    linear: int
    direct: int

    @property
    def total(self) -> int:
        return self.quadratic + self.linear + self.direct

    @classmethod
    def of(cls, layout: Layout) -> "_Kinds":
        d = layout.d_out
        linear = d + 1 if layout.centred or layout.direct else 0
        return cls(d * (d + 1) // 2, linear, d + 1 if layout.direct else 0)


class Pairs:
    """The kernel from sums (kinds, pairs of points)."""

    def sums(self, left: Tangent, right: Tangent | None) -> list[Tensor]:
        n2 = (right or left).points
        size = _block_size(left.layout, n2)
        kinds = _Kinds.of(left.layout)
        total = left.outputs.new_zeros(kinds.total, _pairs(left.points, n2, symmetric=right is None))
        gates = left.outputs.new_empty(_TILE_ROWS + n2, min(size, left.m))
        shift = _shift(left, right)
        for block in blocks(left.m, size):
            P = left.gate(block)
            P2 = P if right is None else right.gate(block)
            products = _value_products(left, kinds, shift, block)
            for tile, pairs in _tiles(left.points, n2, symmetric=right is None):
                room = gates[: pairs.stop - pairs.start, : P.shape[1]]
                u = _gate_products(P, P2, tile, right is None, out=room)
                total[:, pairs].addmm_(products, u.T)
        return [total]

    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor:
        assembly = _Assembly(left, right, sums[0])
        n, n2, d = left.points, assembly.other.points, left.d_out
        kernel = left.outputs.new_empty(d, n, d, n2)
        for k in range(d):
            first = k if right is None else 0
            rows = assembly.rows(k, first)  # (l, i, j)
            kernel[k, :, first:] = rows.transpose(0, 1)
            if right is None:
                kernel[first:, :, k] = rows.transpose(1, 2)
        return kernel.view(d * n, d * n2)

    def entries(self, left: Layout, right: Layout | None) -> tuple[int, int]:
        other = right or left
        n, n2 = left.points, other.points
        kinds = _Kinds.of(left).total
        workspace = min(left.m, _block_size(left, n2)) * (_TILE_ROWS + 2 * n2 + n + 2 * kinds)
        temporaries = 3 + left.centred + 4 * left.direct
        finish = left.rows * other.rows + temporaries * n * other.rows + 3 * n * n2
        return kinds * _pairs(n, n2, symmetric=right is None), max(workspace, finish)


class _Assembly:
    """From sums over pairs to rows of the kernel."""

    def __init__(self, left: Tangent, right: Tangent | None, total: Tensor):
        self.left, self.other, self.total = left, right or left, total
        self.symmetric = right is None
        self.kinds = _Kinds.of(left.layout)
        self.scale = left.inputs @ self.other.inputs.T / left.width
        shift = _shift(left, right)
        self.mu, self.mu2 = left.mu - shift, self.other.mu - shift
        self.index = _symmetric_index(left.points).to(total.device) if self.symmetric else None
        start = self.kinds.quadratic
        d = left.d_out
        if self.kinds.linear:
            self.linear, self.one = self._full(start, start + d), self._full(start + d, start + d + 1)[0]
        if self.kinds.direct:
            start += self.kinds.linear
            self._make_direct(self._full(start, start + d), self._full(start + d, start + d + 1)[0])

    def _full(self, start: int, stop: int) -> Tensor:
        """Rows of the sums with the pairs spread out (rows, n, n2)."""
        some = self.total[start:stop]
        if self.index is not None:
            some = some.index_select(1, self.index)
        return some.view(stop - start, self.left.points, self.other.points)

    def _make_direct(self, signed: Tensor, sign: Tensor) -> None:
        self.C = signed - self.mu.T[:, :, None] * sign  # (k, i, j)
        self.C2 = (signed - self.mu2.T[:, None, :] * sign).transpose(1, 2)  # (l, j, i)

    def rows(self, k: int, first: int) -> Tensor:
        """The kernel's rows of output k for outputs l >= first (l, n, n2)."""
        rows = self._quadratic(k, first)
        if self.kinds.linear:
            rows -= self.mu[:, k, None] * self.linear[first:]
            rows -= self.mu2.T[first:, None, :] * (self.linear[k] - self.mu[:, k, None] * self.one)
        rows *= self.scale
        if self.kinds.direct:
            rows += direct_rows(self.left, self.other, k, first, self.C, self.C2, self.one)
        return rows

    def _quadratic(self, k: int, first: int) -> Tensor:
        d = self.left.d_out
        start = k * d - k * (k - 1) // 2  # where the pairs (k, k), (k, k + 1), ... stand
        later = self._full(start, start + d - k)
        if first == k:
            return later.clone() if self.index is None else later
        earlier = [self._full(at, at + 1) for at in (l * d - l * (l - 1) // 2 + k - l for l in range(k))]
        return torch.cat([*earlier, later])


def _pairs(n: int, n2: int, symmetric: bool) -> int:
    return n * (n + 1) // 2 if symmetric else n * n2


def _block_size(left: Layout, n2: int) -> int:
    return block_size(_TILE_ROWS + n2, _BLOCK_BYTES, left.itemsize, high=512)


def _tiles(n: int, n2: int, symmetric: bool) -> Iterator[tuple[range, slice]]:
    """Points i in tiles of about _TILE_ROWS pairs (i, j), with the place of those pairs."""
    start, row, rows = 0, 0, 0
    for i in range(n):
        rows += n2 - i if symmetric else n2
        if rows >= _TILE_ROWS or i == n - 1:
            yield range(start, i + 1), slice(row, row + rows)
            start, row, rows = i + 1, row + rows, 0


def _gate_products(P: Tensor, P2: Tensor, tile: range, symmetric: bool, out: Tensor) -> Tensor:
    row, n2 = 0, P2.shape[0]
    for i in tile:
        first = i if symmetric else 0
        stop = row + n2 - first
        torch.mul(P[i], P2[first:], out=out[row:stop])
        row = stop
    return out


def _value_products(tangent: Tangent, kinds: _Kinds, shift: Tensor, block: slice) -> Tensor:
    v = tangent.values(block) - shift[:, None]
    d, size = v.shape
    products = v.new_empty(kinds.total, size)
    row = 0
    for k in range(d):
        torch.mul(v[k], v[k:], out=products[row : row + d - k])
        row += d - k
    if kinds.linear:
        products[row : row + d], products[row + d] = v, 1
        row += d + 1
    if tangent.direct is not None:
        s = tangent.direct[block]
        products[row : row + d], products[row + d] = v * s, s
    return products


def _shift(left: Tangent, right: Tangent | None) -> Tensor:
    """The mean centre, by which values and centres are moved."""
    if left.centre is None:
        return left.outputs.new_zeros(left.d_out)
    return left.mu.mean(dim=0) if right is None else (left.mu.mean(dim=0) + right.mu.mean(dim=0)) / 2


def _symmetric_index(n: int) -> Tensor:
    """For each (i, j) the place of the pair (min, max) among the pairs i <= j (n n,)."""
    index = torch.empty(n, n, dtype=torch.long)
    upper = torch.triu_indices(n, n)
    order = torch.arange(upper.shape[1])
    index[upper[0], upper[1]] = order
    index[upper[1], upper[0]] = order
    return index.reshape(-1)
