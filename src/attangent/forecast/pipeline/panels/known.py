"""A panel with columns that are known in advance: their effects are used where the past speaks for it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.models.panels.effects import ahead, effects, without
from attangent.forecast.pipeline.panels.backtest import FEWEST_VALUES
from attangent.forecast.pipeline.panels.forecast import PanelForecast, forecast_panel, non_negative

Array = NDArray[np.float64]


def forecast_known(
    panel: Panel,
    past: Sequence[Array],
    future: Sequence[Array],
    horizon: int,
    probabilities: Sequence[float] = (),
    model: str = "auto",
) -> PanelForecast:
    """Like `forecast_panel`, with columns (n, K) over the past of each series and (H, K) over its future."""
    plain = forecast_panel(panel, horizon, probabilities, model)
    better, why = _helps(panel, past, horizon, model)
    if not better:
        return replace(plain, why=f"{plain.why}; {why}")
    sizes = effects(panel, past)
    found = forecast_panel(without(panel, past, sizes), horizon, probabilities, model)
    back = ahead(past, future, sizes)
    return replace(
        found,
        why=f"{found.why}; {why}",
        forecasts=non_negative(panel, found.forecasts + back),
        quantiles=non_negative(panel, found.quantiles + back[:, :, None]),
    )


def _helps(panel: Panel, past: Sequence[Array], horizon: int, model: str) -> tuple[bool, str]:
    """Whether the last values were forecast better with the columns, all of it learned before them."""
    back = int(min(horizon, np.median(panel.lengths) - FEWEST_VALUES))
    if back < 1 or len(panel.before(back)) == 0:
        return False, "the series are too short to tell whether the covariates help, so they were not used"
    earlier = panel.before(back)
    n = len(earlier)
    known = [columns[: len(columns) - back] for columns in past[:n]]
    came = [columns[len(columns) - back :] for columns in past[:n]]
    actual = panel.values[:n, panel.values.shape[1] - back :]
    sizes = effects(earlier, known)
    with_them = forecast_panel(without(earlier, known, sizes), back, model=model).forecasts
    with_them = with_them + ahead(known, came, sizes)
    plain = forecast_panel(earlier, back, model=model).forecasts
    scale = seasonal_scale(earlier)[:, None]
    errors = [float((np.abs(f - actual) / scale).mean()) for f in (with_them, plain)]
    said = (
        f"the last {back} values had an error of {errors[0]:.3g} with the covariates, {errors[1]:.3g} without"
    )
    return errors[0] < errors[1], said
