"""What training converges to: ridge regression on the representations, in closed form."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attangent._core.arrays import fitted
from attangent._core.checks import check_not_negative
from attangent._core.errors import AttangentError
from attangent.icl._inputs import as_labels
from attangent.icl.dictionary import Dictionary
from attangent.icl.tasks import IN_DOMAIN, Tasks


class RidgeLimit:
    """y* = A'y: a prompt's own labels, then (Z^Q)' lambda_hat with lambda_hat = (a I + Z Z')^-1 Z y.

    The ridge is a = m tau (Eq. 20, 22, 66, 67) unless `alpha` is given. At a = 0 the inverse is the
    pseudo-inverse (Eq. 26).

    >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
    >>> labels = dictionary.prompts(3).shown
    >>> RidgeLimit(dictionary).predict(labels).shape
    torch.Size([3, 12])
    """

    def __init__(self, dictionary: Dictionary, alpha: float | None = None):
        self.dictionary = dictionary
        self.alpha = dictionary.ridge if alpha is None else check_not_negative("alpha", alpha)

    @classmethod
    def best(cls, dictionary: Dictionary) -> "RidgeLimit":
        """y_best of Eq. 23-25, whose ridge is N tau. The paper calls it the best; `risk` says otherwise."""
        return cls(dictionary, alpha=dictionary.N * dictionary.tau)

    @cached_property
    def A(self) -> Tensor:
        """(N, K): the matrix (34) in the form (66), (I_N, Z'(a I + Z Z')^-1 Z^Q)."""
        identity = torch.eye(self.dictionary.N, dtype=torch.float64)
        return torch.cat([identity, self._solver.T @ self.dictionary.Z_query], dim=1)

    @cached_property
    def _solver(self) -> Tensor:
        """(m, N): (a I + Z Z')^-1 Z by the singular values of Z, exact for a = 0 and any m, N."""
        U, s, Vh = torch.linalg.svd(self.dictionary.Z, full_matrices=False)
        kept = s > s[0] * max(self.dictionary.Z.shape) * torch.finfo(s.dtype).eps
        inverse = torch.where(kept, s / (s.square() + self.alpha), 0.0)
        return U * inverse @ Vh

    def predict(self, labels: Any) -> Tensor:
        """(..., K): y* for the labels (..., N) of prompts."""
        return as_labels(labels, self.dictionary.N) @ self.A

    def template(self, labels: Any) -> Tensor:
        """(..., m): lambda_hat, the template that a prompt implies (Eq. 67)."""
        return as_labels(labels, self.dictionary.N) @ self._solver.T

    @property
    def least_loss(self) -> float:
        """L* = (m tau / 2K) sum over k > N of 1 + z_k'(m tau I + Z Z')^-1 z_k, the infimum of the loss.

        Lemma 5 prints it without the m tau of the labels' own noise for k > N; see `printed_least_loss`.
        It belongs to the ridge m tau and is not defined for another alpha.
        """
        K, N, ridge = self.dictionary.K, self.dictionary.N, self.dictionary.ridge
        return self.printed_least_loss + ridge * (K - N) / (2 * K)

    @property
    def printed_least_loss(self) -> float:
        """L* as Lemma 5 prints it: the part k <= N vanishes, for k > N the misfit of z_k by Z."""
        if self.alpha != self.dictionary.ridge:
            raise AttangentError(
                f"the least loss belongs to the ridge m tau={self.dictionary.ridge:g}, not to {self.alpha:g}"
            )
        Z, Z_query = self.dictionary.Z, self.dictionary.Z_query
        coefficients = self.A[:, self.dictionary.N :]
        misfit = (Z @ coefficients - Z_query).square().sum()
        size = self.dictionary.ridge * coefficients.square().sum()
        return ((misfit + size) / (2 * self.dictionary.K)).item()

    def risk(self, tasks: Tasks = IN_DOMAIN, tau: float | None = None) -> float:
        """E of the mean over k > N of (y*_k - lambda'z_k)^2, with the tasks and noise of one's choice."""
        return clean_risk(self.dictionary, self.A, tasks, tau)


def clean_risk(
    dictionary: Dictionary, matrix: Tensor, tasks: Tasks = IN_DOMAIN, tau: float | None = None
) -> float:
    """E of the mean over k > N of (a_k'y - lambda'z_k)^2, for the linear predictor with columns a_k.

    (1/Q) [tr(R' E[lambda lambda'] R) + tau E|lambda|^2 |A_Q|^2] with R = Z A_Q - Z^Q, Q = K - N.
    """
    if dictionary.K == dictionary.N:
        raise AttangentError("the risk is a mean over tokens without labels, but K = N leaves none")
    noise = (dictionary.tau if tau is None else check_not_negative("tau", tau)) * tasks.squared_norm(
        dictionary.m
    )
    matrix = fitted("matrix", matrix, dictionary.Z, dictionary.N, dictionary.K)
    coefficients = matrix[:, dictionary.N :]
    R = dictionary.Z @ coefficients - dictionary.Z_query
    bias = (R * (tasks.second_moment(dictionary.m) @ R)).sum()
    return ((bias + noise * coefficients.square().sum()) / R.shape[1]).item()


def expected_distance(
    dictionary: Dictionary, first: Tensor, second: Tensor, tasks: Tasks = IN_DOMAIN, tau: float | None = None
) -> float:
    """E (1/K)|A'y - B'y|^2 between two linear predictors; the paper's inference loss where B is the limit."""
    shape = dictionary.N, dictionary.K
    D = fitted("first", first, dictionary.Z, *shape) - fitted("second", second, dictionary.Z, *shape)
    return ((D * (dictionary.label_moment(tasks, tau) @ D)).sum() / dictionary.K).item()
