"""The ridge limit as a scikit-learn estimator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from attangent._core.checks import check_not_negative
from attangent._core.errors import AttangentError


class InContextRidge(RegressorMixin, BaseEstimator):
    """Ridge regression with alpha = m tau and no intercept: the answers of trained attention to queries.

    Equal to `sklearn.linear_model.Ridge(alpha=m * tau, fit_intercept=False)` on the features.

    Args:
        tau: Variance of the noise per coordinate of a representation.
        representation: Maps tokens (rows, d) to features (rows, m); by default the identity.

    Example:
        >>> features = np.eye(3)
        >>> InContextRidge(tau=0.1).fit(features, [1.0, 2.0, 3.0]).predict(features).round(2)
        array([0.77, 1.54, 2.31])
    """

    def __init__(self, tau: float = 0.01, representation: Callable[[Any], Any] | None = None):
        self.tau = tau
        self.representation = representation

    def fit(self, X: Any, y: Any) -> "InContextRidge":
        """Learn lambda_hat = (m tau I + Z Z')^-1 Z y from a prompt (Eq. 67).

        Args:
            X: Tokens, one per row.
            y: Labels.

        Returns:
            The fitted estimator.

        Raises:
            AttangentError: If the data are not finite numbers, or tau is negative.
        """
        check_not_negative("tau", self.tau)
        X, y = self._validated(X, y, dtype=np.float64, y_numeric=True)
        U, s, Vh = np.linalg.svd(self._features(X), full_matrices=False)
        alpha = Vh.shape[1] * self.tau
        nonzero = s > s[0] * max(len(U), Vh.shape[1]) * np.finfo(np.float64).eps
        inverse = np.divide(s, s**2 + alpha, out=np.zeros_like(s), where=nonzero)
        self.coef_ = Vh.T @ (inverse * (U.T @ y))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Compute lambda_hat'f(x).

        Args:
            X: Tokens, one per row.

        Returns:
            One answer per row.
        """
        check_is_fitted(self)
        X = self._validated(X, dtype=np.float64, reset=False)
        return self._features(X) @ self.coef_

    def _validated(self, *data: Any, **options: Any) -> Any:
        """Check the data by scikit-learn's rules."""
        arrays: list[Any] = [item.detach().cpu() if isinstance(item, torch.Tensor) else item for item in data]
        try:
            return validate_data(self, *arrays, **options)
        except (ValueError, OverflowError) as error:
            raise AttangentError(str(error)) from error

    def _features(self, X: np.ndarray) -> np.ndarray:
        if self.representation is None:
            return X
        return np.asarray(self.representation(X), dtype=np.float64)
