"""The guarantee of Theorems 1 and 2, and whether floating point can train from a given start."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attangent._core.checks import check_positive
from attangent._core.errors import AttangentError
from attangent.icl.dictionary import Dictionary
from attangent.icl.rules import RidgeLimit

SATURATED = 0.9
DEPENDENT = 1e-12


class InitialisationWarning(UserWarning):
    """Issued when the softmax is saturated or the heads are numerically dependent.

    Args:
        message: Which of the two, by how much, and what to change.
    """


@dataclass(frozen=True)
class Health:
    """Whether floating point can train from a start.

    Attributes:
        largest_weight: Largest softmax weight, averaged over heads and tokens; between 1/N and 1.
        zeta: zeta_0 of Eq. 14, the least eigenvalue of B_k B_k' over all k, B_k = Z_bar C_k; 0 for H < N.
        heads: Number of heads H.
        N: Number of tokens in a prompt.
    """

    largest_weight: float
    zeta: float
    heads: int
    N: int

    @property
    def saturated(self) -> bool:
        return self.N > 1 and self.largest_weight > SATURATED

    @property
    def dependent(self) -> bool:
        """Whether H >= N heads, independent by Proposition 1, are dependent in floating point."""
        return self.heads >= self.N and self.zeta < DEPENDENT

    @property
    def complaints(self) -> tuple[str, ...]:
        complaints = []
        if self.saturated:
            complaints.append(
                f"the softmax is saturated: its largest weight is {self.largest_weight:.3g} on average, "
                f"expected at most {SATURATED}. Gradients in Q vanish; use a smaller logit_std, such as 2"
            )
        if self.dependent:
            complaints.append(
                f"zeta_0 is {self.zeta:.1e}, expected at least {DEPENDENT:g}: the heads are numerically "
                "dependent and Proposition 1 fails in floating point. Use more heads or a logit_std near 2"
            )
        return tuple(complaints)


def examine(dictionary: Dictionary, S: Tensor) -> Health:
    """Measure the health of softmax vectors S (H, N, K)."""
    return Health(
        largest_weight=S.amax(dim=1).mean().item(), zeta=zeta(dictionary, S), heads=S.shape[0], N=dictionary.N
    )


def zeta(dictionary: Dictionary, S: Tensor) -> float:
    """min over k of lambda_min(B_k B_k'), by singular values of B_k = Z_bar C_k, C_k = S[:, :, k]'."""
    if S.shape[0] < dictionary.N:
        return 0.0
    B = dictionary.Z_bar @ S.permute(2, 1, 0)
    return torch.linalg.svdvals(B)[:, -1].square().min().item()


@dataclass(frozen=True)
class Certificate:
    """Constants of Theorem 1 and steps of Theorem 2, as decimal logarithms if they may overflow.

    The rates that the theorems use are eta_Q = 1/L and eta_w = gamma^2 eta_Q with L of Eq. 17. `steps` is
    the T of Eq. 21 to (1/2K)|yhat - y*|^2 <= eps with probability 1 - delta, for tasks of norm <= bound.

    Attributes:
        zeta: zeta_0 (Eq. 14).
        gap: Delta^(0), the gap at the start.
        log10_gamma: gamma at its least value (Eq. 15).
        log10_alpha: The bound on the weights w / gamma along the way (Eq. 44).
        log10_L: L as Eq. 17 prints it.
        log10_L_61: L as Eq. 61 prints it.
        log10_L_corrected: L of Eq. 61 with the prefactor that its proof gives, 16 gamma^2 f^2 |Z_bar|^2 / K.
        log10_contraction: eta_w zeta_0 / 2K: the gap shrinks by one minus this factor per step (Eq. 18).
        log10_steps: T of Eq. 21.
    """

    zeta: float
    gap: float
    log10_gamma: float
    log10_alpha: float
    log10_L: float
    log10_L_61: float
    log10_L_corrected: float
    log10_contraction: float
    log10_steps: float

    @property
    def rate_Q(self) -> float:
        return _power(-self.log10_L)

    @property
    def rate_w(self) -> float:
        return self.rate_Q and _power(2 * self.log10_gamma - self.log10_L)

    @property
    def contraction(self) -> float:
        return _power(self.log10_contraction)

    @property
    def steps(self) -> float:
        return _power(self.log10_steps)


@dataclass(frozen=True)
class Sizes:
    """Norms and sizes that the constants are computed from."""

    H: int
    K: int
    N: int
    Z_bar: float
    f_max: float
    A: float
    cross: float
    """|Z'Zhat| / (m tau), which with 1 bounds |A| in Eq. 17."""


def sizes(dictionary: Dictionary, heads: int) -> Sizes:
    Z = dictionary.Z
    Zhat = dictionary.features.T
    return Sizes(
        H=heads,
        K=dictionary.K,
        N=dictionary.N,
        Z_bar=_spectral(dictionary.Z_bar),
        f_max=dictionary.f_max,
        A=_spectral(RidgeLimit(dictionary).A),
        cross=_spectral(Z.T @ Zhat) / dictionary.ridge if dictionary.ridge else math.inf,
    )


def certify(
    dictionary: Dictionary, S: Tensor, gap: float, eps: float = 1e-2, delta: float = 0.05, bound: float = 1.0
) -> Certificate:
    """Compute the certificate of a start with softmax vectors S and a positive gap.

    Every constant stays a decimal logarithm until the end: at practical sizes L exceeds 1e308.
    """
    for name, value in (("eps", eps), ("delta", delta), ("bound", bound)):
        check_positive(name, value)
    if gap <= 0:
        raise AttangentError(f"the gap is {gap:g}, but Theorems 1 and 2 need a start above the least loss")
    s = sizes(dictionary, S.shape[0])
    z = zeta(dictionary, S)
    if z == 0:
        return _no_guarantee(gap)
    gamma = log10_gamma(s, z, gap)
    alpha = log10_alpha(s, z, gap, gamma)
    L = log10_L_printed(s, z, gap, gamma)
    contraction = 2 * gamma - L + _log(z) - _log(2 * s.K)
    return Certificate(
        zeta=z,
        gap=gap,
        log10_gamma=gamma,
        log10_alpha=alpha,
        log10_L=L,
        log10_L_61=log10_L_61(s, gamma, alpha),
        log10_L_corrected=log10_L_corrected(s, gamma, alpha),
        log10_contraction=contraction,
        log10_steps=_log10_steps(dictionary, gap, contraction, eps, delta, bound),
    )


def _no_guarantee(gap: float) -> Certificate:
    """Return the certificate for fewer heads than prompt tokens: zeta_0 = 0, and no rate is safe."""
    inf = math.inf
    return Certificate(0.0, gap, inf, math.nan, inf, inf, inf, -inf, inf)


def log10_gamma(s: Sizes, zeta: float, gap: float) -> float:
    """zeta^(-5/4) (128 sqrt2/(sqrt2 - 1) |Zbar|^2 sqrt(H) f K^(3/2) Delta)^(1/2) (Eq. 15)."""
    factor = 128 * math.sqrt(2) / (math.sqrt(2) - 1)
    inside = factor * s.Z_bar**2 * math.sqrt(s.H) * s.f_max * s.K**1.5 * gap
    return -1.25 * _log(zeta) + 0.5 * _log(inside)


def log10_alpha(s: Sizes, zeta: float, gap: float, gamma: float) -> float:
    """sqrt(2K) 4 |Zbar| sqrt(Delta) / (gamma zeta) (Eq. 44)."""
    return _log(4 * math.sqrt(2 * s.K * gap) * s.Z_bar) - gamma - _log(zeta)


def log10_L_printed(s: Sizes, zeta: float, gap: float, gamma: float) -> float:
    """L of Eq. 17. Its first bracket has |Zbar|^2; Eq. 61 with 44 gives |Zbar|."""
    z = _log(zeta)
    Z4 = 4 * _log(s.Z_bar)
    bracket = _sum(_log(8 * math.sqrt(2 * s.K * gap) * s.H * s.Z_bar**2) - z, _log(1 + s.cross))
    first = _sum(_log(8 / s.K) + 2 * gamma, _log(4096 * s.K**2 * s.N * gap) - gamma - 2 * z)
    second = _sum(4 * gamma - 2 * _log(s.K), _log(16384 * s.K**3 * s.Z_bar**2 * gap**2) - gamma - 4 * z)
    return 0.5 * _sum(2 * bracket + Z4 + first, _log(2 * s.H**2) + Z4 + second)


def log10_L_61(s: Sizes, gamma: float, alpha: float) -> float:
    """L of Eq. 61 as printed."""
    return _smoothness(s, gamma, alpha, _log(8 * s.f_max * s.Z_bar) + gamma)


def log10_L_corrected(s: Sizes, gamma: float, alpha: float) -> float:
    """L of Eq. 61 with the square that Eq. 59 forgets on its prefactor, and 4 for Eq. 58's four terms."""
    return _smoothness(s, gamma, alpha, _log(16 * s.f_max**2 * s.Z_bar**2 / s.K) + 2 * gamma)


def log10_L_repaired(s: Sizes, gamma: float, alpha: float) -> float:
    """L of Eq. 17 as it follows from the corrected Eq. 61: with |A| <= 1 + |Z'Zhat|/(m tau)."""
    return log10_L_corrected(replace(s, A=1 + s.cross), gamma, alpha)


def _smoothness(s: Sizes, gamma: float, alpha: float, prefactor: float) -> float:
    total = _log(s.H) + gamma + alpha  # gamma H alpha
    first = 2 * (_log(2 * s.Z_bar**2) + gamma + _sum(_log(2) + total, _log(s.A))) - _log(s.K)
    second = 4 * gamma + 2 * _log(s.H / s.K) + 4 * _log(s.Z_bar)
    largest = max(0.0, 2 * (_log(2 * math.sqrt(s.K)) + alpha))
    bracket = _sum(2 * total, _log(4 * s.N) + 2 * _sum(total, _log(s.A)))
    return 0.5 * _sum(_log(2) + _sum(first, second), prefactor + largest + bracket)


def _log10_steps(
    dictionary: Dictionary, gap: float, contraction: float, eps: float, delta: float, bound: float
) -> float:
    """T of Eq. 21; log(1/(1 - c)) is c for tiny c."""
    if not dictionary.ridge:
        return math.inf
    log_delta = math.log(1 / delta)
    tail = 2 * math.sqrt(dictionary.N * log_delta) + 2 * log_delta + dictionary.N
    size = _spectral(dictionary.Z) + math.sqrt(dictionary.tau * tail)
    wanted = math.log(bound**2 * gap * size**2 / (dictionary.ridge * eps))
    if wanted <= 0:
        return -math.inf
    a_step = contraction if contraction < -8 else _log(-math.log1p(-_power(contraction)))
    return math.log10(wanted) - a_step


def _spectral(matrix: Tensor) -> float:
    return torch.linalg.matrix_norm(matrix, 2).item()


def _log(x: float) -> float:
    return math.log10(x) if x > 0 else -math.inf


def _power(log10: float) -> float:
    return 10.0**log10 if log10 < 308 else math.inf


def _sum(*logs: float) -> float:
    """log10 of the sum of 10^log."""
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log10(sum(10.0 ** (log - top) for log in logs))
