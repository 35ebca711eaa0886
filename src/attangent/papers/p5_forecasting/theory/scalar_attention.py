"""The two-layer attention model of P5: each neuron scales the attention to a series' last value."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_size
from attangent.kernels.checks import as_points
from attangent.kernels.data import Init
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import DenseFactor, Tangent, blocks

_ATTENTION_ENTRIES = 2**19


class ScalarAttention(TwoLayerNetwork):
    """f(x) = m^(-1/2) sum_r a_r <softmax(x_d w_r x), x> for x in R^d, w and a in R^m (P5 Section 4.2).

    df(x)/dw_r = m^(-1/2) a_r x_d Var_{S_r}(x) with S_r = softmax(x_d w_r x) (Lemma E.5), so that
    H = J J' = (1/m) sum_r x_id Var x_jd Var (Definition F.2). W is (1, m); outputs are (n, 1).

    Args:
        d: Length of a series.
        m: Number of neurons.
        sigma: Standard deviation of the initial weights.
        init: `symmetric` (the network starts at zero; m must be even) or `independent`.
        seed: Seed of the weights.
        dtype: Precision of weights and results.

    Example:
        >>> ScalarAttention(d=8, m=32).kernel(torch.randn(4, 8)).shape
        torch.Size([4, 4])
    """

    def __init__(
        self,
        d: int,
        m: int,
        sigma: float = 1.0,
        init: Init = "symmetric",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ):
        self.d_in = check_size("d", d)
        self.d_out = 1
        self.m = m
        self.sigma = sigma
        self._draw(1, 1, init, seed, dtype)

    @property
    def width(self) -> float:
        """1: the kernel is J J'."""
        return 1.0

    def attention(self, X: Any) -> Float[Tensor, "n m d"]:
        """Compute S (n, m, d), the attention of each neuron over the coordinates of each point."""
        return self._gate(as_points("X", X, self.d_in, self.W)).attention(slice(0, self.m))

    def _gate(self, X: Tensor) -> "VarianceGate":
        return VarianceGate(X, self.W, 1 / math.sqrt(self.m))

    def _tangent(self, X: Tensor) -> Tangent:
        gate = self._gate(X)
        outputs = gate.means(slice(0, self.m)) @ self.a.T / math.sqrt(self.m)
        return Tangent(outputs, torch.ones_like(X[:, :1]), gate, DenseFactor(self.a), self.m, self.width)


@dataclass(frozen=True)
class VarianceGate:
    """P[i, r] = scale x_id Var_{S_ir}(x_i) with S_ir = softmax(x_id w_r x_i) over the coordinates of x_i."""

    X: Float[Tensor, "n d"]
    w: Float[Tensor, "1 m"]
    scale: float

    def __call__(self, block: slice) -> Tensor:
        return torch.cat([self._variance(piece) for piece in self._small_blocks(block)], dim=1)

    def means(self, block: slice) -> Float[Tensor, "n block"]:
        """Compute <S_ir, x_i> (n, block)."""
        return torch.cat([self._mean(self.attention(piece)) for piece in self._small_blocks(block)], dim=1)

    def _small_blocks(self, block: slice) -> Iterator[slice]:
        """Yield blocks whose attention (n, block, d) stays small."""
        start, stop, _ = block.indices(self.w.shape[1])
        for piece in blocks(stop - start, max(1, _ATTENTION_ENTRIES // self.X.numel())):
            yield slice(start + piece.start, start + piece.stop)

    def _variance(self, block: slice) -> Tensor:
        S = self.attention(block)
        # E[(x - E x)^2] and not E[x^2] - (E x)^2, which loses all digits when the attention saturates.
        spread = self.X[:, None, :] - self._mean(S)[:, :, None]
        return self.scale * self.X[:, -1:] * torch.einsum("irk,irk->ir", S, spread.square_())

    def _mean(self, S: Tensor) -> Tensor:
        return torch.einsum("irk,ik->ir", S, self.X)

    def attention(self, block: slice) -> Float[Tensor, "n block d"]:
        """Compute S (n, block, d)."""
        logits = (self.X[:, -1:] * self.w[:, block])[:, :, None] * self.X[:, None, :]
        return torch.softmax(logits, dim=2)
