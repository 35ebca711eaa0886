"""The prefix network of P1, whose m vectors are keys and values, and the constants of Theorem 3.2."""

import math
from dataclasses import dataclass
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.arrays import check_shape
from attangent._core.checks import check_choice, check_not_negative, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.kernels.checks import as_points, as_targets
from attangent.kernels.data import Init
from attangent.kernels.network import Kind, TwoLayerNetwork, softmax_tangent
from attangent.kernels.tangent import Tangent
from attangent.papers.common.bounds import LOG10_E, log10

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


@dataclass(frozen=True)
class Guarantee:
    """The constants of P1 Definition I.1 with every Omega(1) read as 1.

    Constants that overflow are decimal logarithms. For poly(n, d, e^B) the power is that of the proofs.

    Attributes:
        B: Bound on |<w_r, x_i>|.
        lambda_min: Smallest eigenvalue of the kernel of Definition G.1, the one in the theorem.
        log10_width: lambda^-2 n^2 d^2 e^(30 B) sqrt(log(nd/delta)) (Lemma H.2).
        log10_rate: lambda / (m n^2 d^2 e^(16 B)) (Lemma I.4).
        log10_radius: R = lambda / (16 sqrt(nd) e^(22 B)) (Claim G.4).
        log10_movement: D = 2 lambda^-1 e^(20 B) sqrt(nd) |Y - F(0)|_F / m (Definition I.1).
    """

    B: float
    lambda_min: float
    log10_width: float
    log10_rate: float
    log10_radius: float
    log10_movement: float


def concentration_bound(outputs: int, sigma: float, delta: float, C: float = 10.0) -> float:
    """Compute B = max(C sigma sqrt(log(nd/delta)), 1), a bound on |<w_r, x_i>| with probability 1 - delta.

    Args:
        outputs: nd, the number of outputs at all points.
        sigma: Standard deviation of the initial weights.
        delta: Probability of failure, between 0 and 1.
        C: The constant of the bound.

    Returns:
        B.

    Raises:
        AttangentError: If a number is out of range.
    """
    check_size("outputs", outputs)
    check_not_negative("sigma", sigma)
    check_not_negative("C", C)
    if check_positive("delta", delta) >= 1:
        raise AttangentError(f"delta is {delta}, expected a probability below 1")
    return max(C * sigma * math.sqrt(math.log(outputs / delta)), 1.0)


def prefix_guarantee(
    network: PrefixNetwork, X: Any, Y: Any, delta: float = 0.05, C: float = 10.0
) -> Guarantee:
    """Compute the width, rate and movement that P1 Theorem 3.2 needs to fit Y at X.

    Args:
        network: The network at its initial weights.
        X: Points (n, d) in the unit ball.
        Y: Targets (n, d) in the unit ball.
        delta: Probability of failure, below 0.1.
        C: The constant of `concentration_bound`.

    Returns:
        The constants of the theorem.

    Raises:
        AttangentError: If a point or target lies outside the unit ball, or delta is out of range.
    """
    X = as_points("X", X, network.d_in, network.W)
    Y = as_targets(Y, X, network.d_out, network.W)
    for name, values in (("X", X), ("Y", Y)):
        require_unit_ball(name, values)
    if check_positive("delta", delta) >= 0.1:
        raise AttangentError(f"delta is {delta}, expected a probability below 0.1")
    lambda_min = torch.linalg.eigvalsh(network.kernel(X, kind="paper"))[0].item()
    start = (network.forward(X) - Y).norm().item()
    nd = Y.numel()
    log_m = math.log10(network.m)
    B = concentration_bound(nd, network.sigma, delta, C)
    e = B * LOG10_E
    log_lambda = log10(lambda_min)
    log_nd = math.log10(nd)
    return Guarantee(
        B=B,
        lambda_min=lambda_min,
        log10_width=-2 * log_lambda + 2 * log_nd + 30 * e + 0.5 * math.log10(math.log(nd / delta)),
        log10_rate=log_lambda - log_m - 2 * log_nd - 16 * e,
        log10_radius=log_lambda - math.log10(16) - 0.5 * log_nd - 22 * e,
        log10_movement=math.log10(2) + 0.5 * log_nd + log10(start) - log_m - log_lambda + 20 * e,
    )


def require_unit_ball(name: str, values: Tensor) -> None:
    """Raise an AttangentError if a row is longer than 1, which the theorems of P1 and P2 exclude.

    Args:
        name: Name in the error message.
        values: Points or targets (rows, columns).

    Raises:
        AttangentError: If there is no row, or one is longer than 1.
    """
    check_shape(name, values, "rows", "columns")
    if not values.numel():
        raise AttangentError(f"{name} has shape {tuple(values.shape)}, expected at least one row and column")
    longest = values.double().norm(dim=1).max().item()
    if longest > 1 + 1e-9:
        raise AttangentError(
            f"{name} has a row of norm {longest:.3g}, expected at most 1 as in the theorem: "
            f"divide {name} by its largest norm"
        )
