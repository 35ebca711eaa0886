"""Gradient-boosted trees on levels and seasons, over all series and steps together."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.base import PanelModel
from attangent.forecast.models.lag_features import Windows, shortest

Array = NDArray[np.float64]

MOST_ROWS = 20_000
"""Number of pairs of a window and a step that the trees are fitted to."""
FEWEST_ROWS = 1_000
TREES = 60
LEAVES = 15
FEWEST_PER_LEAF = 40
RATE = 0.08


class Boosting(PanelModel):
    """(y - a) / s = f(x, h): scikit-learn's histogram gradient boosting by squared errors.

    x are the features of `LagRidge`, a the mean of the last season and s the seasonal scale. One f serves all
    series and steps; the number h of the step is a feature.
    """

    families = ("boosting",)
    many_only = True

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return "boosting"; series shorter than two seasons, and small panels, get Theta's forecast."""
        windows = Windows.of(panel, horizon, np.ones(len(panel), dtype=bool))
        if windows.y.size < FEWEST_ROWS:
            return {"boosting": earlier["theta"]}
        values = windows.unscaled(_boosted(windows))
        long_enough = panel.lengths >= shortest(panel.period)
        return {"boosting": np.where(long_enough[:, None], values, earlier["theta"])}


def _boosted(windows: Windows) -> Array:
    """Fit trees to a sample of the windows and return scaled forecasts (N, H)."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    x = _with_steps(windows.x)
    rows = np.arange(len(x))
    if len(x) > MOST_ROWS:
        rows = np.random.default_rng(0).choice(len(x), MOST_ROWS, replace=False)
    trees = HistGradientBoostingRegressor(
        learning_rate=RATE,
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=FEWEST_PER_LEAF,
        early_stopping=False,  # pyright: ignore[reportArgumentType]  its stub knows "auto" only
        random_state=0,
    )
    with threadpool_limits(1):  # one thread: groups already run in parallel
        trees.fit(x[rows], windows.y.reshape(-1)[rows])
        return trees.predict(_with_steps(windows.last)).reshape(windows.last.shape[:2])


def _with_steps(features: Array) -> NDArray[np.float32]:
    """(n H, K + 1): append the number of the step to (n, H, K)."""
    count, horizon, _ = features.shape
    steps = np.broadcast_to(np.arange(1, horizon + 1)[None, :, None], (count, horizon, 1))
    return np.concatenate((features, steps), axis=2).reshape(count * horizon, -1).astype(np.float32)
