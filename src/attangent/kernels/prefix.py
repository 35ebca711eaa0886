"""The prefix network of P1: attention over m prefix vectors that are keys and values at once."""

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent.kernels.factors import SignedRows
from attangent.kernels.initial import Init
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.softmax import softmax_tangent
from attangent.kernels.tangent import Tangent


class PrefixNetwork(TwoLayerNetwork):
    """F(x) = m sum_r a_r w_r softmax(W' x)_r, with W (d, m) trained and signs a (m,) fixed (P1 Eq. 3).

    With b = W * a, S = softmax(X W), mu = S b' and R = F - Y the gradient of 1/2 |R|^2 is
    m X'(S * (R b - (R * mu) 1)) + m (R' S) * a (Claim F.12): w_r acts as a key and, through e_k, as a value.

    `kernel(kind="exact")` is J J'/m; `kernel(kind="paper")` is Definition G.1, which drops the part of w_r as
    a value and therefore is not the Gram matrix of these gradients.

    >>> network = PrefixNetwork(d=4, m=512)
    >>> network.forward(torch.eye(4)).abs().max() < 1e-12
    tensor(True)
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
        self.d_in = self.d_out = check_size("d", d)
        self.m, self.sigma = m, sigma
        self._draw(d, 1, init, seed, dtype)

    @property
    def width(self) -> float:
        return float(self.m)

    @property
    def beta(self) -> Tensor:
        """W * a (d, m), the values of the prefix (Definition E.5)."""
        return self.W * self.a

    def _tangent(self, X: Tensor) -> Tangent:
        return softmax_tangent(X, self.W, SignedRows(self.W, self.a), direct=self.a[0])
