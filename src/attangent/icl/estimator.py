"""The ridge limit as a scikit-learn estimator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from attangent._core.arrays import has_numbers
from attangent._core.checks import check_not_negative
from attangent._core.errors import AttangentError
from attangent._core.kinds import describe
from attangent._core.memory import check_memory


class _WrongKind(AttangentError, TypeError):
    """What scikit-learn's conventions want to be a TypeError."""


def _check_tensor(tensor: torch.Tensor) -> None:
    if not has_numbers(tensor):
        raise _WrongKind(f"a tensor is {describe(tensor)}, expected a dense one with ordinary numbers in it")
    check_memory("the data", numbers=tensor.numel())


class InContextRidge(RegressorMixin, BaseEstimator):
    """What trained attention answers outside its prompt: ridge regression with alpha = m tau, no intercept.

    `X` holds tokens, one a row; `representation` maps them to features (rows, m), and is the identity unless
    given. Equal to `sklearn.linear_model.Ridge(alpha=m * tau, fit_intercept=False)` on the features.

    >>> features = np.eye(3)
    >>> InContextRidge(tau=0.1).fit(features, [1.0, 2.0, 3.0]).predict(features).round(2)
    array([0.77, 1.54, 2.31])
    """

    def __init__(self, tau: float = 0.01, representation: Callable[[Any], Any] | None = None):
        self.tau = tau
        self.representation = representation

    def fit(self, X: Any, y: Any) -> "InContextRidge":
        """Learn lambda_hat = (m tau I + Z Z')^-1 Z y from a prompt (Eq. 67)."""
        check_not_negative("tau", self.tau)
        X, y = self._validated(X, y, dtype=np.float64, y_numeric=True)
        U, s, Vh = np.linalg.svd(self._features(X), full_matrices=False)
        alpha = Vh.shape[1] * self.tau
        kept = s > s[0] * max(len(U), Vh.shape[1]) * np.finfo(np.float64).eps
        inverse = np.divide(s, s**2 + alpha, out=np.zeros_like(s), where=kept)
        self.coef_ = Vh.T @ (inverse * (U.T @ y))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """lambda_hat'f(x) for each row."""
        check_is_fitted(self)
        X = self._validated(X, dtype=np.float64, reset=False)
        return self._features(X) @ self.coef_

    def _validated(self, *data: Any, **options: Any) -> Any:
        """The data as scikit-learn wants them."""
        for one in data:
            if isinstance(one, torch.Tensor):
                _check_tensor(one)
        plain: list[Any] = [one.detach().cpu() if isinstance(one, torch.Tensor) else one for one in data]
        try:
            return validate_data(self, *plain, **options)
        except TypeError as error:
            raise _WrongKind(str(error)) from error
        except (ValueError, OverflowError) as error:
            raise AttangentError(str(error)) from error

    def _features(self, X: np.ndarray) -> np.ndarray:
        if self.representation is None:
            return X
        return np.asarray(self.representation(X), dtype=np.float64)
