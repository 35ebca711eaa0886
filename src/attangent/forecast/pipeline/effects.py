"""Effects of columns known in advance: removed before a forecast and added after it, if that helps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attangent.forecast.data.panel import Array, Panel
from attangent.forecast.pipeline.backtest import FEWEST_VALUES
from attangent.forecast.pipeline.combination import PanelForecast, PanelRequest, forecast_panel

POOLED_COUNTS_FOR = 20.0
"""The effects that all series agree on count as much as this many steps of a series itself."""
RIDGE = 1e-3


def forecast_with_covariates(
    panel: Panel, past: Sequence[Array], future: Sequence[Array], request: PanelRequest
) -> PanelForecast:
    """Forecast a panel with covariates if they improve the forecast of the last values, otherwise without.

    Args:
        panel: Series, the longest first.
        past: Covariates (n, K) over the past of each series.
        future: Covariates (H, K) over the steps ahead of each series.
        request: Horizon, model and quantiles.
    """
    helps, why = _helps(panel, past, request)
    if not helps:
        plain = forecast_panel(panel, request)
        none = np.zeros((*plain.forecasts.shape, past[0].shape[1]))
        return replace(plain, why=f"{plain.why}; {why}", added=none)
    sizes = effects(panel, past)
    result = forecast_panel(without(panel, past, sizes), request)
    contributions = ahead(past, future, sizes)
    added = contributions.sum(axis=2)
    return replace(
        result,
        why=f"{result.why}; {why}",
        forecasts=panel.non_negative(result.forecasts + added),
        quantiles=panel.non_negative(result.quantiles + added[:, :, None]),
        added=contributions,
    )


def _helps(panel: Panel, past: Sequence[Array], request: PanelRequest) -> tuple[bool, str]:
    """Return whether covariates improved the forecast of the last values, and that in words."""
    back = int(min(request.horizon, np.median(panel.lengths) - FEWEST_VALUES))
    if back < 1 or len(panel.before(back)) == 0:
        return False, "the series are too short to tell whether the covariates help, so they were not used"
    earlier = panel.before(back)
    n = len(earlier)
    known = [columns[: len(columns) - back] for columns in past[:n]]
    later = [columns[len(columns) - back :] for columns in past[:n]]
    actual = panel.values[:n, panel.values.shape[1] - back :]
    sizes = effects(earlier, known)
    trial = PanelRequest(back, request.period, model=request.model)
    adjusted = forecast_panel(without(earlier, known, sizes), trial).forecasts
    adjusted = adjusted + ahead(known, later, sizes).sum(axis=2)
    plain = forecast_panel(earlier, trial).forecasts
    scale = earlier.scale[:, None]
    used, unused = (float((np.abs(f - actual) / scale).mean()) for f in (adjusted, plain))
    if used < unused:
        return True, f"the covariates lowered the error of the last {back} values, so they were used"
    return False, f"the covariates did not lower the error of the last {back} values, so they were not used"


def effects(panel: Panel, past: Sequence[Array]) -> Array:
    """b (N, K) of (y_t - y_{t-1}) / s = b'(c_t - c_{t-1}), s the seasonal scale, in units of the columns.

    b_n = (G_n + k D)^-1 (g_n + k D b), with G_n and g_n the sums of one series, b the solution for all of
    them together, D the mean square of each column's steps and k = 20. A series with few steps, or whose
    columns hardly move, takes the effects of the others.
    """
    scale = panel.scale
    grams = []
    crosses = []
    count = 0
    for values, length, s, columns in zip(panel.values, panel.lengths, scale, past, strict=True):
        x = np.diff(columns, axis=0)
        y = np.diff(values[len(values) - length :]) / s
        grams.append(x.T @ x)
        crosses.append(x.T @ y)
        count += len(x)
    gram = np.sum(grams, axis=0)
    cross = np.sum(crosses, axis=0)
    spread = np.diag(gram) / max(count, 1)
    prior = np.diag(np.where(spread > 0, spread, 1.0))
    pooled = np.linalg.solve(gram + RIDGE * count * prior, cross)
    sizes = [
        np.linalg.solve(G + POOLED_COUNTS_FOR * prior, g + POOLED_COUNTS_FOR * prior @ pooled)
        for G, g in zip(grams, crosses, strict=True)
    ]
    return np.stack(sizes) * scale[:, None]


def without(panel: Panel, past: Sequence[Array], sizes: Array) -> Panel:
    """Subtract the effects b'(c_t - c_T), so that last values stay unchanged."""
    values = panel.values.copy()
    for row, length, columns, b in zip(values, panel.lengths, past, sizes, strict=True):
        row[len(row) - length :] -= (columns - columns[-1]) @ b
    return replace(panel, values=values)


def ahead(past: Sequence[Array], future: Sequence[Array], sizes: Array) -> Array:
    """(N, H, K): the effects b_k (c_{T+h,k} - c_{T,k}), whose sum over k is added to the forecasts."""
    return np.stack([(f - p[-1]) * b for p, f, b in zip(past, future, sizes, strict=True)])
