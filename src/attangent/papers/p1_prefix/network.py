"""The prefix network of P1: attention over m prefix vectors that are keys and values at once."""

from dataclasses import dataclass
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_choice, check_positive, check_size
from attangent.kernels.checks import as_points
from attangent.kernels.data import Init
from attangent.kernels.network import Kind, TwoLayerNetwork, softmax_tangent
from attangent.kernels.tangent import Tangent

_DOUBLE = torch.zeros((), dtype=torch.float64)


@dataclass(frozen=True)
class SignedWeights:
    """W * a (d, m): the columns of W with the signs a (1, m)."""

    W: Float[Tensor, "d m"]
    a: Float[Tensor, "1 m"]

    def __call__(self, block: slice) -> Tensor:
        return self.W[:, block] * self.a[:, block]


class PrefixNetwork(TwoLayerNetwork):
    """F(x) = m sum_r a_r w_r softmax(W'x)_r, with W (d, m) trained and signs a (m,) fixed (P1 Eq. 3).

    With b = W * a, S = softmax(X W), mu = S b' and R = F - Y the gradient of 1/2 |R|^2 is
    m X'(S * (R b - (R * mu) 1)) + m (R'S) * a (Claim F.12): w_r acts as a key and, through e_k, as a value.

    `kernel(kind="exact")` is J J'/m; `kernel(kind="paper")` is Definition G.1, which drops the role of w_r as
    a value and therefore is not the Gram matrix of these gradients.

    Args:
        d: Dimension of a point and of an output.
        m: Number of prefix vectors.
        sigma: Standard deviation of the initial weights.
        init: `symmetric` (the network starts at zero; m must be even) or `independent`.
        seed: Seed of the weights.
        dtype: Precision of weights and results.

    Example:
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
        self.m = m
        self.sigma = sigma
        self._draw(d, 1, init, seed, dtype)

    @property
    def width(self) -> float:
        """m: the kernel is J J'/m."""
        return float(self.m)

    @property
    def beta(self) -> Float[Tensor, "d m"]:
        """W * a (d, m), the values of the prefix (Definition E.5)."""
        return self.W * self.a

    def _tangent(self, X: Tensor) -> Tangent:
        return softmax_tangent(X, self.W, SignedWeights(self.W, self.a), direct=self.a[0])


def prefix_limit(
    X: Any, X2: Any = None, sigma: float = 1.0, kind: Kind = "exact"
) -> Float[Tensor, "rows columns"]:
    """Compute the limit of `PrefixNetwork.kernel` for m to infinity, with p = x + z and s = sigma.

    paper: g e^(s^2 g) (s^2 delta_kl + s^4 p_k p_l);
    exact: the same plus e^(s^2 g) (s^2 (p_k x_l + p_l z_k) + delta_kl).
    """
    X = as_points("X", X, None, _DOUBLE)
    X2 = X if X2 is None else as_points("X2", X2, X.shape[1], _DOUBLE)
    check_choice("kind", kind, get_args(Kind))
    s2 = check_positive("sigma", sigma) ** 2
    g = X @ X2.T
    p = X[:, None, :] + X2[None, :, :]  # (i, j, k)
    same = torch.eye(X.shape[1], dtype=X.dtype)[:, None, :, None]  # (k, i, l, j)
    kernel = g[:, None, :] * (s2 * same + s2**2 * torch.einsum("ijk,ijl->kilj", p, p))
    if kind == "exact":
        crossed = torch.einsum("ijk,il->kilj", p, X) + torch.einsum("ijl,jk->kilj", p, X2)
        kernel = kernel + s2 * crossed + same
    return (torch.exp(s2 * g)[:, None, :] * kernel).flatten(2).flatten(0, 1)
