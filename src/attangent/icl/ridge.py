"""The limit of training in closed form: ridge regression on the representations."""

from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.arrays import fitted
from attangent._core.checks import check_not_negative
from attangent._core.errors import AttangentError
from attangent.icl.dictionary import IN_DOMAIN, Dictionary, Tasks, as_labels


class RidgeLimit:
    """y* = A'y: the prompt's labels, then (Z^Q)' lambda_hat with lambda_hat = (a I + Z Z')^-1 Z y.

    At a = 0 the inverse is the pseudo-inverse (Eq. 26).

    Args:
        dictionary: Tokens and representations.
        alpha: The ridge a; by default m tau (Eq. 20, 22, 66, 67).

    Raises:
        AttangentError: If alpha is negative.

    Example:
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
        """Return y_best of Eq. 23-25, whose ridge is N tau; `risk` shows that it is not the best.

        Args:
            dictionary: Tokens and representations.

        Returns:
            The limit with ridge N tau.
        """
        return cls(dictionary, alpha=dictionary.N * dictionary.tau)

    @cached_property
    def A(self) -> Float[Tensor, "N K"]:
        """(I_N, Z'(a I + Z Z')^-1 Z^Q) (N, K): the matrix (34) in the form (66)."""
        identity = torch.eye(self.dictionary.N, dtype=torch.float64)
        return torch.cat([identity, self._solver.T @ self.dictionary.Z_query], dim=1)

    @cached_property
    def _solver(self) -> Float[Tensor, "m N"]:
        """(a I + Z Z')^-1 Z (m, N)."""
        # By singular values and not by a linear solve, which fails at a = 0 if Z lacks full rank.
        U, s, Vh = torch.linalg.svd(self.dictionary.Z, full_matrices=False)
        nonzero = s > s[0] * max(self.dictionary.Z.shape) * torch.finfo(s.dtype).eps
        inverse = torch.where(nonzero, s / (s.square() + self.alpha), 0.0)
        return U * inverse @ Vh

    def predict(self, labels: Any) -> Tensor:
        """Compute y*.

        Args:
            labels: Labels of prompts (..., N).

        Returns:
            Answers for all tokens (..., K).
        """
        return as_labels(labels, self.dictionary.N) @ self.A

    def template(self, labels: Any) -> Tensor:
        """Compute lambda_hat, the template that a prompt implies (Eq. 67).

        Args:
            labels: Labels of prompts (..., N).

        Returns:
            Templates (..., m).
        """
        return as_labels(labels, self.dictionary.N) @ self._solver.T

    @property
    def least_loss(self) -> float:
        """L* = (m tau / 2K) sum over k > N of 1 + z_k'(m tau I + Z Z')^-1 z_k, the infimum of the loss.

        Lemma 5 prints it without the m tau of the labels' own noise for k > N; see `printed_least_loss`.
        It belongs to the ridge m tau and is not defined for another alpha.
        """
        K = self.dictionary.K
        return self.printed_least_loss + self.dictionary.ridge * (K - self.dictionary.N) / (2 * K)

    @property
    def printed_least_loss(self) -> float:
        """L* as Lemma 5 prints it: the terms k <= N vanish, those k > N are the misfit of z_k by Z."""
        if self.alpha != self.dictionary.ridge:
            raise AttangentError(
                f"the least loss belongs to the ridge m tau={self.dictionary.ridge:g}, not to {self.alpha:g}"
            )
        coefficients = self.A[:, self.dictionary.N :]
        misfit = (self.dictionary.Z @ coefficients - self.dictionary.Z_query).square().sum()
        size = self.dictionary.ridge * coefficients.square().sum()
        return ((misfit + size) / (2 * self.dictionary.K)).item()

    def risk(self, tasks: Tasks = IN_DOMAIN, tau: float | None = None) -> float:
        """Compute E of the mean over k > N of (y*_k - lambda'z_k)^2.

        Args:
            tasks: Distribution of the tasks.
            tau: Variance of the noise; by default that of the dictionary.

        Returns:
            The risk.
        """
        return clean_risk(self.dictionary, self.A, tasks, tau)


def clean_risk(
    dictionary: Dictionary, matrix: Any, tasks: Tasks = IN_DOMAIN, tau: float | None = None
) -> float:
    """Compute E of the mean over k > N of (a_k'y - lambda'z_k)^2 for a linear predictor.

    It is (1/Q) [tr(R' E[lambda lambda'] R) + tau E|lambda|^2 |A_Q|^2] with R = Z A_Q - Z^Q, Q = K - N.

    Args:
        dictionary: Tokens and representations.
        matrix: The predictor's columns a_k (N, K).
        tasks: Distribution of the tasks.
        tau: Variance of the noise; by default that of the dictionary.

    Returns:
        The risk.

    Raises:
        AttangentError: If the matrix has another shape, or K = N leaves no token without a label.

    Example:
        >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
        >>> clean_risk(dictionary, RidgeLimit(dictionary).A) < clean_risk(dictionary, torch.zeros(6, 12))
        True
    """
    if dictionary.K == dictionary.N:
        raise AttangentError("the risk is a mean over tokens without labels, but K = N leaves none")
    noise = (dictionary.tau if tau is None else check_not_negative("tau", tau)) * tasks.squared_norm(
        dictionary.m
    )
    columns = fitted("matrix", torch.as_tensor(matrix), dictionary.Z, dictionary.N, dictionary.K)
    coefficients = columns[:, dictionary.N :]
    R = dictionary.Z @ coefficients - dictionary.Z_query
    bias = (R * (tasks.second_moment(dictionary.m) @ R)).sum()
    return ((bias + noise * coefficients.square().sum()) / R.shape[1]).item()


def expected_distance(
    dictionary: Dictionary, first: Any, second: Any, tasks: Tasks = IN_DOMAIN, tau: float | None = None
) -> float:
    """Compute E (1/K)|A'y - B'y|^2 between two linear predictors.

    If B is the limit of training, this is the paper's inference loss.

    Args:
        dictionary: Tokens and representations.
        first: A (N, K).
        second: B (N, K).
        tasks: Distribution of the tasks.
        tau: Variance of the noise; by default that of the dictionary.

    Returns:
        The expected squared distance.

    Raises:
        AttangentError: If a matrix has another shape.

    Example:
        >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
        >>> limit = RidgeLimit(dictionary)
        >>> expected_distance(dictionary, limit.A, limit.A)
        0.0
    """
    A = fitted("first", torch.as_tensor(first), dictionary.Z, dictionary.N, dictionary.K)
    B = fitted("second", torch.as_tensor(second), dictionary.Z, dictionary.N, dictionary.K)
    D = A - B
    return ((D * (dictionary.label_moment(tasks, tau) @ D)).sum() / dictionary.K).item()
