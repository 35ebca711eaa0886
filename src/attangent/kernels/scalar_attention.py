"""The two-layer attention model of P5: one number a neuron scales the attention to a series' last value."""

import math

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent.kernels._inputs import as_points
from attangent.kernels.factors import Rows, VarianceGate
from attangent.kernels.initial import Init
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import Tangent


class ScalarAttention(TwoLayerNetwork):
    """f(x) = m^(-1/2) sum_r a_r <softmax(x_d w_r x), x> for x in R^d, w and a in R^m (P5 Section 4.2).

    df(x)/dw_r = m^(-1/2) a_r x_d Var_{S_r}(x) with S_r = softmax(x_d w_r x) (Lemma E.5), so that
    H = J J' = (1/m) sum_r x_id Var x_jd Var (Definition F.2). W is (1, m); outputs are (n, 1).

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
        self.d_in, self.d_out = check_size("d", d), 1
        self.m, self.sigma = m, sigma
        self._draw(1, 1, init, seed, dtype)

    @property
    def width(self) -> float:
        return 1.0

    def attention(self, X: Tensor) -> Tensor:
        """S (n, m, d): the attention of each neuron over the coordinates of each point."""
        return self._gate(as_points("X", X, self.d_in, self.W)).attention(slice(0, self.m))

    def _gate(self, X: Tensor) -> VarianceGate:
        return VarianceGate(X, self.W, 1 / math.sqrt(self.m))

    def _tangent(self, X: Tensor) -> Tangent:
        gate = self._gate(X)
        outputs = gate.means(slice(0, self.m)) @ self.a.T / math.sqrt(self.m)
        return Tangent(outputs, torch.ones_like(X[:, :1]), gate, Rows(self.a), self.m, self.width)
