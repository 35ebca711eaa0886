"""The output gradients of a two-layer network at n points, kept as factors and never as one Jacobian."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from attangent._core.arrays import check_shape, fitted
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent.kernels.factors import Factor, Rows, block_size, blocks

_BLOCK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Layout:
    """The sizes of a tangent, from which memory is estimated before anything is computed."""

    points: int
    d_out: int
    m: int
    itemsize: int
    centred: bool
    direct: bool

    @property
    def rows(self) -> int:
        """Rows of the kernel: one for each output at each point."""
        return self.points * self.d_out


@dataclass(frozen=True)
class Tangent:
    """J in factors: dF[i, l]/dw_r = P[i, r] ((v[l, r] - mu[i, l]) t_i + s_r e_l).

    P (n, m) is the gate, v (d_out, m) the values, mu (n, d_out) the centre (None: zero), t (n, p) the inputs
    and s (m,) the direct signs (None: the weights reach the outputs through the gate only). `outputs` is F
    itself, and the kernel of the network is J J'/width.
    """

    outputs: Tensor
    inputs: Tensor
    gate: Factor
    values: Factor
    m: int
    width: float
    centre: Tensor | None = None
    direct: Tensor | None = None

    __repr__ = brief_fields

    @property
    def points(self) -> int:
        return self.outputs.shape[0]

    @property
    def d_out(self) -> int:
        return self.outputs.shape[1]

    @property
    def rows(self) -> int:
        return self.layout.rows

    @property
    def layout(self) -> Layout:
        itemsize = self.outputs.element_size()
        centred, direct = self.centre is not None, self.direct is not None
        return Layout(self.points, self.d_out, self.m, itemsize, centred, direct)

    @cached_property
    def mu(self) -> Tensor:
        """The centre, zeros where there is none."""
        return torch.zeros_like(self.outputs) if self.centre is None else self.centre

    def without_direct(self) -> Self:
        """J without its direct part: what P1 Definition G.1 multiplies."""
        return replace(self, direct=None)

    def held(self) -> Self:
        """The same with the gate computed once and kept (n m numbers)."""
        return replace(self, gate=Rows(self.gate(slice(0, self.m))))

    def part(self, span: slice) -> Self:
        """The same for some of the neurons: J J' is the sum over such parts."""
        direct = None if self.direct is None else self.direct[span].clone()
        m = len(range(*span.indices(self.m)))
        return replace(self, gate=self.gate.part(span), values=self.values.part(span), m=m, direct=direct)

    def features(self, block: slice) -> Tensor:
        """G[l, i, r] = P[i, r] (v[l, r] - mu[i, l]) (d_out, n, block)."""
        centred = self.values(block)[:, None, :] - self.mu.T[:, :, None]
        return centred.mul_(self.gate(block))

    def direct_features(self, block: slice) -> Tensor:
        """A[i, r] = s_r P[i, r] (n, block), where there is a direct part."""
        if self.direct is None:
            raise AttangentError("this tangent has no direct part: only its features contribute")
        return self.gate(block) * self.direct[block]

    def pull(self, V: Tensor, block: slice) -> Tensor:
        """J'V for the neurons of a block (p, block), V (n, d_out)."""
        V = fitted("V", V, self.outputs, *self.outputs.shape)
        gate = self.gate(block)
        along = V @ self.values(block)
        if self.centre is not None:
            along -= (V * self.centre).sum(dim=1, keepdim=True)
        pulled = self.inputs.T @ along.mul_(gate)
        return pulled if self.direct is None else pulled + (V.T @ gate) * self.direct[block]

    def push(self, U: Tensor, block: slice) -> Tensor:
        """J U (n, d_out) of a change U (p, block) in the neurons of a block."""
        gate = self.gate(block)
        U = fitted("U", U, self.inputs, self.inputs.shape[1], gate.shape[1])
        flow = (self.inputs @ U).mul_(gate)
        pushed = flow @ self.values(block).T
        if self.centre is not None:
            pushed -= flow.sum(dim=1, keepdim=True) * self.centre
        return pushed if self.direct is None else pushed + gate @ (U * self.direct[block]).T

    def pull_back(self, V: Tensor) -> Tensor:
        """J'V (p, m): the gradient of the loss where V = F - Y."""
        return torch.cat([self.pull(V, block) for block in self.blocks()], dim=1)

    def push_forward(self, U: Tensor) -> Tensor:
        """J U (n, d_out): the first-order change of the outputs when the weights change by U (p, m)."""
        check_shape("U", U, self.inputs.shape[1], self.m)
        return torch.stack([self.push(U[:, block], block) for block in self.blocks()]).sum(dim=0)

    def blocks(self) -> list[slice]:
        """Blocks of neurons for matrices of n, d_out or p rows."""
        rows = max(self.points, self.d_out, self.inputs.shape[1])
        return neuron_blocks(self.m, rows, self.layout.itemsize)


def trace_kernel(tangent: Tangent) -> Tensor:
    """sum_k K[(k, i), (k, j)] (n, n), the kernel traced over outputs, without the kernel: O(n^2 m).

    (x_i.x_j) sum_r P_ir P_jr (v_r - mu_i).(v_r - mu_j), and for the direct part D + D' + d_out P P' with
    D_ij = sum_r P_ir s_r x_i.(v_r - mu_i) P_jr.
    """
    n = tangent.points
    total, direct = tangent.outputs.new_zeros(2, n, n)
    for block in tangent.blocks():
        P, v = tangent.gate(block), tangent.values(block)
        toward = tangent.mu @ v  # mu_i.v_r
        half = P * (0.5 * v.square().sum(dim=0) - toward)
        total += half @ P.T + P @ half.T
        same = P @ P.T
        total += (tangent.mu @ tangent.mu.T) * same
        if tangent.direct is not None:
            centred = tangent.inputs @ v - (tangent.inputs * tangent.mu).sum(dim=1, keepdim=True)
            crossed = (P * centred * tangent.direct[block]) @ P.T
            direct += crossed + crossed.T + tangent.d_out * same
    return (total * (tangent.inputs @ tangent.inputs.T) + direct) / tangent.width


def neuron_blocks(m: int, rows: int, itemsize: int) -> list[slice]:
    """Blocks of neurons for which a matrix (rows, block) takes a few megabytes."""
    return list(blocks(m, block_size(rows, _BLOCK_BYTES, itemsize, high=m)))


def kernel_product(left: Tangent, right: Tangent, V: Tensor) -> Tensor:
    """K V (n, d_out) with K = J_left J_right'/width and V (n2, d_out), in one pass over the neurons."""
    product = torch.zeros_like(left.outputs)
    for block in right.blocks():
        product += left.push(right.pull(V, block), block)
    return product.div_(left.width)
