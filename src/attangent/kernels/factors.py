"""Matrices with one column a neuron, made block by block, so that no more than a block need exist at once.

A factor is called with a slice of neurons and gives its columns; `part` keeps only a span of neurons, which
is what a worker is sent. Index letters as in the whole room: n points (i, j), l outputs, r neurons.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

_ATTENTION_ENTRIES = 2**19


class Factor(Protocol):
    """Columns of a matrix over neurons."""

    def __call__(self, block: slice) -> Tensor: ...
    def part(self, span: slice) -> "Factor": ...


def blocks(m: int, size: int) -> Iterator[slice]:
    """Neurons 0..m-1 in blocks of at most `size`."""
    for start in range(0, m, size):
        yield slice(start, min(start + size, m))


def block_size(rows: int, target_bytes: int, itemsize: int, low: int = 64, high: int = 4096) -> int:
    """How many neurons a block may have for a matrix of `rows` rows to take about `target_bytes`."""
    return max(low, min(high, target_bytes // max(1, rows * itemsize)))


@dataclass(frozen=True)
class Rows:
    """A matrix (., m) that is already there."""

    matrix: Tensor

    def __call__(self, block: slice) -> Tensor:
        return self.matrix[:, block]

    def part(self, span: slice) -> Self:
        return type(self)(self.matrix[:, span].clone())


@dataclass(frozen=True)
class SignedRows:
    """W * a (d, m): the columns of W with the signs a (1, m)."""

    W: Tensor
    a: Tensor

    def __call__(self, block: slice) -> Tensor:
        return self.W[:, block] * self.a[:, block]

    def part(self, span: slice) -> Self:
        return type(self)(self.W[:, span].clone(), self.a[:, span].clone())


@dataclass(frozen=True)
class SoftmaxGate:
    """P[i, r] = exp(x_i.w_r - peak_i) / mass_i."""

    X: Tensor
    W: Tensor
    peak: Tensor
    mass: Tensor

    def __call__(self, block: slice) -> Tensor:
        logits = self.X @ self.W[:, block]
        return logits.sub_(self.peak[:, None]).exp_().div_(self.mass[:, None])

    def part(self, span: slice) -> Self:
        return type(self)(self.X, self.W[:, span].clone(), self.peak, self.mass)


@dataclass(frozen=True)
class ActivationGate:
    """P[i, r] = scale slope(x_i.w_r)."""

    X: Tensor
    W: Tensor
    slope: Callable[[Tensor], Tensor]
    scale: float

    def __call__(self, block: slice) -> Tensor:
        return self.scale * self.slope(self.X @ self.W[:, block])

    def part(self, span: slice) -> Self:
        return type(self)(self.X, self.W[:, span].clone(), self.slope, self.scale)


@dataclass(frozen=True)
class VarianceGate:
    """P[i, r] = scale x_id Var_{S_ir}(x_i) with S_ir = softmax(x_id w_r x_i) over the coordinates of x_i."""

    X: Tensor
    w: Tensor
    scale: float

    def __call__(self, block: slice) -> Tensor:
        return torch.cat([self._variance(some) for some in self._small_blocks(block)], dim=1)

    def means(self, block: slice) -> Tensor:
        """<S_ir, x_i> (n, block)."""
        return torch.cat([self._mean(self.attention(some)) for some in self._small_blocks(block)], dim=1)

    def _small_blocks(self, block: slice) -> Iterator[slice]:
        """Blocks whose attention (n, block, d) stays small."""
        start, stop, _ = block.indices(self.w.shape[1])
        for some in blocks(stop - start, max(1, _ATTENTION_ENTRIES // self.X.numel())):
            yield slice(start + some.start, start + some.stop)

    def _variance(self, block: slice) -> Tensor:
        S = self.attention(block)
        spread = self.X[:, None, :] - self._mean(S)[:, :, None]
        return self.scale * self.X[:, -1:] * torch.einsum("irk,irk->ir", S, spread.square_())

    def _mean(self, S: Tensor) -> Tensor:
        return torch.einsum("irk,ik->ir", S, self.X)

    def attention(self, block: slice) -> Tensor:
        """S (n, block, d)."""
        logits = (self.X[:, -1:] * self.w[:, block])[:, :, None] * self.X[:, None, :]
        return torch.softmax(logits, dim=2)

    def part(self, span: slice) -> Self:
        return type(self)(self.X, self.w[:, span].clone(), self.scale)
