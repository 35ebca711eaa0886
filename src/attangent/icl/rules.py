"""Rules that an in-context learner may follow; above all ridge regression, the limit of training.

A rule maps (dictionary, labels (count, N)) to answers (count, K - N).
"""

from collections.abc import Callable
from dataclasses import replace
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


Rule = Callable[[Dictionary, Tensor], Tensor]


def ridge(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Ridge regression on the representations with the ridge m tau."""
    return RidgeLimit(dictionary).predict(labels)[:, dictionary.N :]


def ridge_on_tokens(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Ridge regression on the tokens with the ridge that the variance of the labels implies."""
    tokens = dictionary.tokens
    # Labels of variance |v|^2 s^2 with s^2 = mean |z|^2 / mean |v|^2 and noise of variance m tau imply the
    # ridge m tau / s^2. If the representations are the tokens, this is `ridge`.
    alpha = dictionary.ridge * float(tokens.square().sum() / dictionary.features.square().sum())
    on_tokens = replace(dictionary, features=tokens)
    return RidgeLimit(on_tokens, alpha=alpha).predict(labels)[:, dictionary.N :]


def least_squares(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Least squares on the tokens, of minimum norm if there are more coordinates than tokens."""
    shown, queries = _shown_and_queries(dictionary)
    return labels @ torch.linalg.pinv(shown).T @ queries.T


def descent(steps: int) -> Rule:
    """Gradient descent on |V w - y|^2 / 2 over the tokens from w = 0, at the rate 1 / lambda_max(V V')."""

    def rule(dictionary: Dictionary, labels: Tensor) -> Tensor:
        shown, queries = _shown_and_queries(dictionary)
        rate = 1 / torch.linalg.matrix_norm(shown, 2).square()
        w = labels.new_zeros(len(labels), shown.shape[1])
        for _ in range(steps):
            w = w - rate * (w @ shown.T - labels) @ shown
        return w @ queries.T

    return rule


def kernel_ridge(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Kernel ridge on the tokens: exp(-|v - v'|^2 / median), ridge m tau relative to the labels' variance."""
    tokens = dictionary.tokens
    squares = torch.cdist(tokens[: dictionary.N], tokens).square()
    kernel = torch.exp(-squares / squares[squares > 0].median())
    noise = dictionary.ridge / dictionary.Z.square().sum(dim=0).mean()
    shown = kernel[:, : dictionary.N] + noise * torch.eye(dictionary.N, dtype=torch.float64)
    return labels @ torch.linalg.lstsq(shown, kernel[:, dictionary.N :]).solution


def neighbours(count: int) -> Rule:
    """The mean label of the `count` tokens nearest to the query, or of all if the prompt is shorter."""

    def rule(dictionary: Dictionary, labels: Tensor) -> Tensor:
        shown, queries = _shown_and_queries(dictionary)
        nearest = torch.cdist(queries, shown).topk(min(count, len(shown)), largest=False).indices
        return labels[:, nearest].mean(dim=-1)

    return rule


nearest_neighbour = neighbours(1)


def trees(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """A forest of 20 regression trees on the tokens, fitted to each prompt."""
    from sklearn.ensemble import RandomForestRegressor

    shown, queries = (tokens.numpy() for tokens in _shown_and_queries(dictionary))
    forest = RandomForestRegressor(20, random_state=0)
    answers = [torch.from_numpy(forest.fit(shown, row.numpy()).predict(queries)) for row in labels]
    return torch.stack(answers)


def mean(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """The mean label of the prompt, whatever the query."""
    return labels.mean(dim=1, keepdim=True).expand(-1, dictionary.K - dictionary.N)


def zero(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """0, whatever the prompt."""
    return labels.new_zeros(len(labels), dictionary.K - dictionary.N)


def _shown_and_queries(dictionary: Dictionary) -> tuple[Tensor, Tensor]:
    """Split the tokens into those of the prompt and the queries."""
    return dictionary.tokens[: dictionary.N], dictionary.tokens[dictionary.N :]


RULES: dict[str, Rule] = {
    "ridge": ridge,
    "ridge on tokens": ridge_on_tokens,
    "least squares": least_squares,
    "descent, 1 step": descent(1),
    "descent, 10 steps": descent(10),
    "descent, 100 steps": descent(100),
    "kernel ridge": kernel_ridge,
    "nearest neighbour": nearest_neighbour,
    "3 nearest": neighbours(3),
    "5 nearest": neighbours(5),
    "trees": trees,
    "mean label": mean,
    "zero": zero,
}
