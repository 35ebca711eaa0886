"""Output gradients of a two-layer network at n points, stored as factors and never as one Jacobian.

Index letters in this package: n points (i, j), outputs k and l, m neurons r, p coordinates of a neuron.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.arrays import check_shape, fitted
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError

_BLOCK_BYTES = 8 * 2**20


def blocks(m: int, size: int) -> Iterator[slice]:
    """Split 0..m-1 into slices of at most `size`."""
    for start in range(0, m, size):
        yield slice(start, min(start + size, m))


def block_size(rows: int, target_bytes: int, itemsize: int, low: int = 64, high: int = 4096) -> int:
    """Return how many columns a matrix of `rows` rows may have to take about `target_bytes`."""
    # At least `low` columns: thinner products are bound by memory, not by arithmetic.
    return max(low, min(high, target_bytes // max(1, rows * itemsize)))


def neuron_blocks(m: int, rows: int, itemsize: int) -> list[slice]:
    """Split m neurons into blocks for which a matrix (rows, block) takes a few megabytes."""
    return list(blocks(m, block_size(rows, _BLOCK_BYTES, itemsize, high=m)))


Factor = Callable[[slice], Tensor]
"""A matrix with one column per neuron, computed block by block so that it never exists at once."""


@dataclass(frozen=True)
class DenseFactor:
    """A factor (rows, m) that is stored as a matrix."""

    matrix: Float[Tensor, "rows m"]

    def __call__(self, block: slice) -> Tensor:
        return self.matrix[:, block]


@dataclass(frozen=True)
class Layout:
    """Sizes of a tangent, from which memory is estimated before anything is computed."""

    points: int
    d_out: int
    m: int
    itemsize: int
    centred: bool
    direct: bool

    @property
    def rows(self) -> int:
        """Rows of the kernel: one per output and point."""
        return self.points * self.d_out


@dataclass(frozen=True)
class Tangent:
    """dF[i, l]/dw_r = P[i, r] ((v[l, r] - mu[i, l]) t_i + s_r e_l): the Jacobian J in factors.

    Attributes:
        outputs: F (n, d_out).
        inputs: t (n, p).
        gate: P (n, m), a factor.
        values: v (d_out, m), a factor.
        m: Number of neurons.
        width: The kernel of the network is J J'/width.
        centre: mu (n, d_out), or None for zero.
        direct: s (m,), or None if the weights reach the outputs through the gate only.

    Example:
        >>> from attangent.kernels import SoftmaxNetwork
        >>> tangent = SoftmaxNetwork(d_in=3, d_out=2, m=8).tangent(torch.eye(3))
        >>> tangent.pull_back(torch.ones(3, 2)).shape
        torch.Size([3, 8])
    """

    outputs: Float[Tensor, "n d_out"]
    inputs: Float[Tensor, "n p"]
    gate: Factor
    values: Factor
    m: int
    width: float
    centre: Float[Tensor, "n d_out"] | None = None
    direct: Float[Tensor, " m"] | None = None

    __repr__ = brief_fields

    @property
    def points(self) -> int:
        """Number of points n."""
        return self.outputs.shape[0]

    @property
    def d_out(self) -> int:
        """Number of outputs."""
        return self.outputs.shape[1]

    @property
    def rows(self) -> int:
        """Rows of J: n d_out."""
        return self.layout.rows

    @property
    def layout(self) -> Layout:
        """Sizes of this tangent."""
        return Layout(
            self.points,
            self.d_out,
            self.m,
            self.outputs.element_size(),
            centred=self.centre is not None,
            direct=self.direct is not None,
        )

    @cached_property
    def mu(self) -> Tensor:
        """The centre (n, d_out), zeros if there is none."""
        return torch.zeros_like(self.outputs) if self.centre is None else self.centre

    def without_direct(self) -> "Tangent":
        """Return the tangent without its direct term, as in P1 Definition G.1."""
        return replace(self, direct=None)

    def held(self) -> "Tangent":
        """Return the tangent with the gate (n, m) computed once and stored."""
        return replace(self, gate=DenseFactor(self.gate(slice(0, self.m))))

    def features(self, block: slice) -> Float[Tensor, "d_out n block"]:
        """Compute G[l, i, r] = P[i, r] (v[l, r] - mu[i, l]).

        Args:
            block: Neurons r.

        Returns:
            G (d_out, n, block).
        """
        # Subtract before multiplying: P v - P mu would cancel digits if the softmax saturates.
        centred = self.values(block)[:, None, :] - self.mu.T[:, :, None]
        return centred.mul_(self.gate(block))

    def direct_features(self, block: slice) -> Float[Tensor, "n block"]:
        """Compute A[i, r] = s_r P[i, r].

        Args:
            block: Neurons r.

        Returns:
            A (n, block).

        Raises:
            AttangentError: If the tangent has no direct term.
        """
        if self.direct is None:
            raise AttangentError("this tangent has no direct term: only its features contribute")
        return self.gate(block) * self.direct[block]

    def pull(self, V: Tensor, block: slice) -> Float[Tensor, "p block"]:
        """Compute J'V for a block of neurons.

        Args:
            V: Cotangent (n, d_out).
            block: Neurons r.

        Returns:
            J'V (p, block).

        Raises:
            AttangentError: If V has another shape.
        """
        V = fitted("V", V, self.outputs, *self.outputs.shape)
        gate = self.gate(block)
        along = V @ self.values(block)
        # V.(v - mu) is expanded so that no array of d_out x n x block numbers is needed.
        if self.centre is not None:
            along -= (V * self.centre).sum(dim=1, keepdim=True)
        pulled = self.inputs.T @ along.mul_(gate)
        return pulled if self.direct is None else pulled + (V.T @ gate) * self.direct[block]

    def push(self, U: Tensor, block: slice) -> Float[Tensor, "n d_out"]:
        """Compute J U for a change of the weights in one block of neurons.

        Args:
            U: Change of the weights (p, block).
            block: Neurons r.

        Returns:
            J U (n, d_out).

        Raises:
            AttangentError: If U has another shape.
        """
        gate = self.gate(block)
        U = fitted("U", U, self.inputs, self.inputs.shape[1], gate.shape[1])
        # The gate multiplies t_i.u_r once; values, centre and direct term then share this flow.
        flow = (self.inputs @ U).mul_(gate)
        pushed = flow @ self.values(block).T
        if self.centre is not None:
            pushed -= flow.sum(dim=1, keepdim=True) * self.centre
        return pushed if self.direct is None else pushed + gate @ (U * self.direct[block]).T

    def pull_back(self, V: Tensor) -> Float[Tensor, "p m"]:
        """Compute J'V, the gradient of 1/2 |F - Y|^2 if V = F - Y.

        Args:
            V: Cotangent (n, d_out).

        Returns:
            J'V (p, m).
        """
        return torch.cat([self.pull(V, block) for block in self.blocks()], dim=1)

    def push_forward(self, U: Tensor) -> Float[Tensor, "n d_out"]:
        """Compute J U, the first-order change of the outputs when the weights change by U.

        Args:
            U: Change of the weights (p, m).

        Returns:
            J U (n, d_out).
        """
        check_shape("U", U, self.inputs.shape[1], self.m)
        return torch.stack([self.push(U[:, block], block) for block in self.blocks()]).sum(dim=0)

    def blocks(self) -> list[slice]:
        """Return blocks of neurons for matrices of n, d_out or p rows."""
        rows = max(self.points, self.d_out, self.inputs.shape[1])
        return neuron_blocks(self.m, rows, self.layout.itemsize)


def trace_kernel(tangent: Tangent) -> Float[Tensor, "n n"]:
    """sum_k K[(k, i), (k, j)]: the kernel traced over outputs in O(n^2 m), without the kernel itself.

    (x_i.x_j) sum_r P_ir P_jr (v_r - mu_i).(v_r - mu_j), and for the direct term D + D' + d_out P P' with
    D_ij = sum_r P_ir s_r x_i.(v_r - mu_i) P_jr.
    """
    n = tangent.points
    total, direct = tangent.outputs.new_zeros(2, n, n)
    for block in tangent.blocks():
        P = tangent.gate(block)
        v = tangent.values(block)
        toward = tangent.mu @ v  # mu_i.v_r
        # (v - mu_i).(v - mu_j) = [|v|^2/2 - mu_i.v] + [|v|^2/2 - mu_j.v] + mu_i.mu_j: each bracket depends
        # on one point, so that two matrix products replace a sum over pairs of points.
        half = P * (0.5 * v.square().sum(dim=0) - toward)
        total += half @ P.T + P @ half.T
        same = P @ P.T
        total += (tangent.mu @ tangent.mu.T) * same
        if tangent.direct is not None:
            centred = tangent.inputs @ v - (tangent.inputs * tangent.mu).sum(dim=1, keepdim=True)
            crossed = (P * centred * tangent.direct[block]) @ P.T
            direct += crossed + crossed.T + tangent.d_out * same
    return (total * (tangent.inputs @ tangent.inputs.T) + direct) / tangent.width


def kernel_product(left: Tangent, right: Tangent, V: Tensor) -> Float[Tensor, "n d_out"]:
    """Compute K V with K = J_left J_right'/width and V (n2, d_out) in one pass over the neurons."""
    product = torch.zeros_like(left.outputs)
    # Push each block right after pulling it, so that J'V (p, m) never exists in full.
    for block in right.blocks():
        product += left.push(right.pull(V, block), block)
    return product.div_(left.width)
