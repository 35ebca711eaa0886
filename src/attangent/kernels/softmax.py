"""The two-layer softmax network of P2 with its gradient and tangent kernel in closed form.

Index letters, here and in the whole room: n points (i, j), l outputs, r neurons, p input coordinates.
"""

import copy
from typing import Any, Self

import torch
from torch import Tensor

from attangent.kernels._inputs import as_points, as_targets, check_positive, check_size
from attangent.kernels.descent import Trajectory, descend
from attangent.kernels.initial import Init, draw_weights


class SoftmaxNetwork:
    """F(x) = m a softmax(W' x), with W (d_in, m) trained and a (d_out, m) fixed (P2 Eq. 1).

    Points are rows: X is (n, d_in), outputs and targets are (n, d_out). Kernels are matrices over pairs
    (output, point) in output-major order: row l*n + i is output l at point i.

    >>> network = SoftmaxNetwork(d_in=4, d_out=2, m=512, seed=0)
    >>> network.kernel(torch.eye(4)).shape
    torch.Size([8, 8])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        m: int,
        sigma: float = 1.0,
        init: Init = "symmetric",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ):
        self.d_in = check_size("d_in", d_in)
        self.d_out = check_size("d_out", d_out)
        self.m = check_size("m", m)
        self.sigma = check_positive("sigma", sigma)
        self.W, self.a = draw_weights(d_in, d_out, m, self.sigma, init, seed, dtype)

    def with_weights(self, W: Tensor) -> Self:
        """This network with other hidden weights, the same output weights."""
        other = copy.copy(self)
        other.W = as_points("W", W, self.m, self.W)
        return other

    def probabilities(self, X: Any) -> Tensor:
        """S = softmax(X W) (n, m)."""
        return torch.softmax(as_points("X", X, self.d_in, self.W) @ self.W, dim=1)

    def forward(self, X: Any) -> Tensor:
        """F = m S a' (n, d_out)."""
        return self.m * self.probabilities(X) @ self.a.T

    def gradient(self, X: Any, Y: Any) -> Tensor:
        """dL/dW (d_in, m) of the loss L = 1/2 |F - Y|^2 (P2 Claim 3.4).

        With mu = S a' and R = F - Y it is m X'(S * (R a - (R * mu) 1)).
        """
        X = as_points("X", X, self.d_in, self.W)
        S = self.probabilities(X)
        mu = S @ self.a.T
        R = self.m * mu - as_targets(Y, X, self.d_out, self.W)
        pull = R @ self.a - (R * mu).sum(dim=1, keepdim=True)  # (n, m)
        return self.m * X.T @ (S * pull)

    def features(self, X: Any) -> Tensor:
        """G[l*n + i, r] = m S[i, r] (a[l, r] - mu[i, l]): dF[i, l]/dw_r = G[l*n + i, r] x_i."""
        S = self.probabilities(X)
        mu = S @ self.a.T
        G = self.m * S * (self.a[:, None, :] - mu.T[:, :, None])  # (d_out, n, m)
        return G.reshape(-1, self.m)

    def kernel(self, X: Any, X2: Any = None) -> Tensor:
        """H (d_out n, d_out n2) = J J'/m, the Gram matrix of the output gradients (P2 Definition 3.6)."""
        X = as_points("X", X, self.d_in, self.W)
        X2 = X if X2 is None else as_points("X2", X2, self.d_in, self.W)
        G, G2 = self.features(X), self.features(X2)
        return (G @ G2.T) * (X @ X2.T / self.m).tile(self.d_out, self.d_out)

    def descend(self, X: Any, Y: Any, rate: float, steps: int, **record: Any) -> Trajectory:
        """Gradient descent from these weights; `descent.descend` says what it records."""
        return descend(self, X, Y, rate, steps, **record)
