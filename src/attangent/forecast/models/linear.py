"""Closed-form linear forecasting: ridge regression on windows, from sums that do not hold the windows."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attangent._core.checks import check_between
from attangent._core.errors import AttangentError
from attangent.forecast.models.forecaster import Forecaster
from attangent.forecast.models.ridge import Moments, RidgePath
from attangent.forecast.models.statistics import Normalise, WindowSums, anchor_row, normaliser, window_sums

Array = NDArray[np.float64]
Weights = Literal["shared", "channel"]

ALPHAS = tuple(float(alpha) for alpha in 10.0 ** np.arange(-6, 2.01, 0.25))


class LinearForecaster(Forecaster):
    """y = level + W'(x - level - mean) + offset, with W by ridge regression (P5 Definition 6.2 for "last").

    `normalise` says which level is taken off a window and put back: its "last" value, its "mean" or "none".
    `weights` is "shared" by all channels or there is one set for each "channel". `alpha` is relative to the
    mean square of the inputs; None takes it from `alphas` by the error on the validation series (or, without
    one, on the last fifth of train, before W is fitted again on all of it). `intercept` lets anchored windows
    drift as they did over train; None decides that on the same validation error. "none" always has one.

    >>> LinearForecaster(lookback=4, horizon=2).fit(np.arange(40.0)).predict([7.0, 8.0, 9.0, 10.0]).round(3)
    array([11., 12.])
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        normalise: Normalise = "last",
        weights: Weights = "shared",
        alpha: float | None = None,
        alphas: Sequence[float] = ALPHAS,
        intercept: bool | None = False,
    ):
        self.lookback, self.horizon = lookback, horizon
        self.normalise: Normalise = normalise
        self.weights: Weights = weights
        self.alpha, self.alphas, self.intercept = alpha, alphas, intercept
        self._check_sizes()
        anchor_row(normalise, self.lookback)
        if weights not in get_args(Weights):
            raise AttangentError(f"weights is {weights!r}, expected one of {', '.join(get_args(Weights))}")
        for value in alphas if alpha is None else [alpha]:
            check_between("alpha", value, 0.0, np.inf if np.isfinite(value) else 1e300)

    def _fit(self, train: Array, validation: Array | None) -> None:
        self._centre = train.mean(axis=0)
        whole = train
        if self.alpha is None and validation is None:
            train, validation = self._last_fifth(train)
        groups = self._groups(train)
        self.intercept_kept_ = self._choose_intercept(groups, validation)
        self.alpha_ = self._choose_alphas(groups, validation)
        paths = [self._path(sums) for sums in (groups if whole is train else self._groups(whole))]
        self.coef_ = np.stack([path.weights(a) for path, a in zip(paths, self.alpha_, strict=True)])
        centres = [(path.moments.centre_x, path.moments.centre_y) for path in paths]
        self.intercept_ = np.stack([y - x @ W for (x, y), W in zip(centres, self.coef_, strict=True)])

    def _last_fifth(self, train: Array) -> tuple[Array, Array]:
        cut = len(train) - max(len(train) // 5, self.horizon)
        if cut < self.lookback + self.horizon:
            return train, train
        return train[:cut], train[cut - self.lookback :]

    def _groups(self, series: Array) -> list[WindowSums]:
        """One set of normalised sums where weights are shared, else one for each channel."""
        matrix = normaliser(self.normalise, self.lookback, self.horizon)
        centred = (series - self._centre).T
        sums = [window_sums(channel, self.lookback + self.horizon) for channel in centred]
        if self.weights == "shared":
            sums = [sum(sums[1:], start=sums[0])]
        return [group.mapped(matrix) for group in sums]

    def _path(self, sums: WindowSums) -> RidgePath:
        """Anchored windows usually get no intercept: a drift over train is not expected to go on."""
        centred = self.normalise == "none" or self.intercept_kept_
        centre = sums.first / sums.count if centred else np.zeros_like(sums.first)
        return RidgePath.of(Moments.about(centre, sums, self.lookback))

    def _choose_intercept(self, groups: list[WindowSums], validation: Array | None) -> bool:
        if self.intercept is not None or validation is None:
            return bool(self.intercept)
        errors = {}
        for kept in (False, True):
            self.intercept_kept_ = kept
            errors[kept] = sum(float(error.min()) for error in self._errors(groups, validation))
        return errors[True] < errors[False]

    def _choose_alphas(self, groups: list[WindowSums], validation: Array | None) -> list[float]:
        if self.alpha is not None or validation is None:
            return [float(self.alpha or 0.0)] * len(groups)
        return [float(self.alphas[int(np.argmin(error))]) for error in self._errors(groups, validation)]

    def _errors(self, groups: list[WindowSums], validation: Array) -> list[Array]:
        """The validation error of every penalty, for each group."""
        alphas = np.asarray(self.alphas if self.alpha is None else [self.alpha], dtype=np.float64)
        held_out = self._groups(validation)
        paths = [self._path(sums) for sums in groups]
        return [path.errors(alphas, path.held_out(sums)) for path, sums in zip(paths, held_out, strict=True)]

    def _predict(self, windows: Array) -> Array:
        x = np.moveaxis(windows - self._centre, 2, 0)  # (C, n, L)
        level = x @ anchor_row(self.normalise, self.lookback)  # (C, n)
        y = (x - level[:, :, None]) @ self.coef_ + self.intercept_[:, None, :] + level[:, :, None]
        return np.moveaxis(y, 0, 2) + self._centre
