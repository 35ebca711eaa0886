"""The residual state-space model of P5: an explicit (A, B, C), its law, and the sign-inconsistent task."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.arrays import fitted
from attangent._core.checks import check_between, check_memory, check_size
from attangent._core.random import generator


def residual_weights(d: int) -> Tensor:
    """c (d,) of P_(d+1) = sum_k c_k P_k: (d-1)/d on the last, 1/(d(d-1)) on each other (Claim C.2)."""
    c = torch.full((d,), 1 / (d * (d - 1)), dtype=torch.float64)
    c[-1] = (d - 1) / d
    return c


@dataclass(frozen=True)
class ResidualSSM:
    """h_(k+1) = A h_k + B u_k, u_k = C'h_k with features P_1..P_(d+1) in R^d and u_k = <P_k, h_1>.

    P_1..P_d are orthonormal and P_(d+1) = sum_k c_k P_k. With M = A + B C', P_k = (M')^(k-1) C: M' maps each
    feature to the next, C = P_1, and B is free since A = M - B C'. The law of (u_1, ..., u_(d+1)) depends on
    the features' inner products only: u_1..u_d are independent standard normal and u_(d+1) = c.u.

    Attributes:
        d: Number of observed values, at least 2.
        sigma: Standard deviation of the noise on every value.
        seed: Seed of the features.

    Example:
        >>> round(ResidualSSM(4).inconsistent_share, 3)
        0.061
    """

    d: int
    sigma: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        check_memory("the state space", d=check_size("d", self.d, least=2), d_again=self.d)
        check_between("sigma", self.sigma, 0.0, 1e6)

    @property
    def c(self) -> Tensor:
        return residual_weights(self.d)

    @property
    def s2(self) -> float:
        """|P_(d+1)|^2 = |c|^2, below 1."""
        return self.c.square().sum().item()

    def features(self) -> Tensor:
        """(d + 1, N): P_1..P_(d+1) in a random orthonormal frame."""
        frame = torch.randn(self.d, self.d, generator=generator(self.seed, "frame"), dtype=torch.float64)
        P = torch.linalg.qr(frame).Q.T
        return torch.cat((P, (self.c @ P)[None]))

    def matrices(self) -> tuple[Tensor, Tensor, Tensor]:
        """A (N, N), B (N,), C (N,)."""
        P = self.features()
        Q = P[:-1].T  # columns are the features
        companion = torch.zeros(self.d, self.d, dtype=torch.float64)
        companion[1:, :-1] = torch.eye(self.d - 1, dtype=torch.float64)
        companion[:, -1] = self.c
        M = (Q @ companion @ Q.T).T
        B = torch.randn(self.d, generator=generator(self.seed, "input"), dtype=torch.float64)
        return M - torch.outer(B, P[0]), B, P[0]

    def sample(self, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw x (n, d) and y (n,) of Definition 4.3, with noise N(0, sigma^2) on every value.

        Args:
            n: Number of samples.
            rng: Random generator.
        """
        check_memory("a sample", n=check_size("n", n), d=self.d)
        u = torch.randn(n, self.d, generator=rng, dtype=torch.float64)
        return self._observe(u, rng)

    def sample_inconsistent(self, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw x (n, d) and y (n,) given u_d u_(d+1) < 0 (Definition 6.1), exactly and without rejection.

        Only u_d and the mean direction of the others enter u_(d+1); in that plane the condition is a pair of
        opposite wedges, so the angle is uniform in them and the law of the radius is unchanged.

        Args:
            n: Number of samples.
            rng: Random generator.
        """
        check_memory("a sample", n=check_size("n", n), d=self.d)
        background = torch.randn(n, self.d - 1, generator=rng, dtype=torch.float64)
        plane = torch.randn(n, 2, generator=rng, dtype=torch.float64)
        turn = torch.rand(n, generator=rng, dtype=torch.float64) * self.wedge - math.pi / 2
        side = torch.where(plane[:, 0] > 0, 1.0, -1.0) * plane.norm(dim=1)
        last = side * torch.cos(turn)
        along = side * torch.sin(turn)
        scale = math.sqrt(self.d - 1)
        background += ((along - background.sum(dim=1) / scale) / scale)[:, None]
        return self._observe(torch.cat((background, last[:, None]), dim=1), rng)

    def _observe(self, u: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = self.sigma * torch.randn(len(u), self.d + 1, generator=rng, dtype=torch.float64)
        return u + noise[:, :-1], u @ self.c + noise[:, -1]

    @property
    def wedge(self) -> float:
        """theta = atan((d-1)^(-3/2)), the angle of each wedge."""
        return math.atan((self.d - 1) ** -1.5)

    @property
    def inconsistent_share(self) -> float:
        """P(u_d u_(d+1) < 0) = theta / pi."""
        return self.wedge / math.pi

    def second_moments(self, inconsistent: bool) -> Tensor:
        """E[u u'] (d, d) of the values without noise.

        Args:
            inconsistent: Whether to condition on sign-inconsistency.
        """
        moments = torch.eye(self.d, dtype=torch.float64)
        if not inconsistent:
            return moments
        theta = self.wedge
        mean = torch.full((self.d,), 1 / math.sqrt(self.d - 1), dtype=torch.float64)
        mean[-1] = 0.0
        last = torch.zeros(self.d, dtype=torch.float64)
        last[-1] = 1.0
        # the angle is -pi/2 + t with t uniform on (0, theta), and the squared radius has mean 2
        sines = math.sin(2 * theta) / (2 * theta)
        cross = -(1 - math.cos(2 * theta)) / (2 * theta)
        moments += (sines) * torch.outer(mean, mean) - sines * torch.outer(last, last)
        return moments + cross * (torch.outer(mean, last) + torch.outer(last, mean))

    def linear_risk(self, weights: Tensor, inconsistent: bool) -> float:
        """E(<w, x> - y)^2 = (w - c)' E[uu'] (w - c) + sigma^2 (|w|^2 + 1).

        Args:
            weights: w (d,).
            inconsistent: Whether to condition on sign-inconsistency.
        """
        weights = fitted("weights", weights, self.c, self.d)
        gap = weights - self.c
        noise = self.sigma**2 * (weights.square().sum().item() + 1)
        return (gap @ self.second_moments(inconsistent) @ gap).item() + noise

    def baseline_risks(self, inconsistent: bool) -> dict[str, float]:
        """Return the exact risks of zero, the last value, the residual linear map c, and the best linear map.

        Args:
            inconsistent: Whether to condition on sign-inconsistency.
        """
        last = torch.zeros(self.d, dtype=torch.float64)
        last[-1] = 1.0
        S = self.second_moments(inconsistent)
        best = torch.linalg.solve(S + self.sigma**2 * torch.eye(self.d, dtype=torch.float64), S @ self.c)
        maps = {
            "zero": torch.zeros_like(last),
            "persistence": last,
            "residual linear": self.c,
            "best linear": best,
        }
        return {name: self.linear_risk(weights, inconsistent) for name, weights in maps.items()}


def fit_residual_linear(x: Tensor, y: Tensor) -> Tensor:
    """w_lin (d,) of f(x) = <w, x - x_d 1> + x_d by least squares (Definition 6.2); w_d is 0."""
    w = torch.linalg.pinv(x - x[:, -1:]) @ (y - x[:, -1])
    w[-1] = 0.0
    return w


def residual_linear(w: Tensor, x: Tensor) -> Tensor:
    """f_lin(x) (n,) = <w, x - x_d 1> + x_d."""
    return (x - x[:, -1:]) @ w + x[:, -1]


def descend_residual_linear(x: Tensor, y: Tensor, steps: int, factor: float = 1.0) -> Tensor:
    """Return w_lin (d,) by gradient descent from zero at the rate factor / lambda_max."""
    inputs = x - x[:, -1:]
    target = y - x[:, -1]
    gram = inputs.T @ inputs
    rate = factor / torch.linalg.eigvalsh(gram)[-1]
    w = torch.zeros(x.shape[1], dtype=x.dtype)
    for _ in range(steps):
        w = w - rate * (gram @ w - inputs.T @ target)
    return w
