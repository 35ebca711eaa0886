"""The targets of a frame: forecasts with intervals, an honest expected error, the reason for the model."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from attangent._core.checks import check_between, check_size
from attangent._core.errors import AttangentError
from attangent.forecast.data.periods import period_of
from attangent.forecast.data.steps import find_step
from attangent.forecast.pipeline.outlooks import Outlook
from attangent.forecast.pipeline.panels.combine import FAMILIES
from attangent.forecast.pipeline.short import panel_outlooks

LONG = 400
"""Series of so many times or more are forecast from windows of their own past, shorter ones as a panel."""


def forecast_frame(
    frame: pd.DataFrame,
    targets: Sequence[str],
    horizon: int,
    lookback: int | None = None,
    model: str = "auto",
    levels: Sequence[float] = (0.8, 0.95),
    tell: Callable[[str], None] = lambda target: None,
    period: int | None = None,
) -> list[Outlook]:
    """An outlook for each target; `tell` gets each target's name before its turn.

    Short frames, and the models "smoothing", "theta", "ridge" and "combination", go through a panel: the
    targets are forecast together. Else each is forecast from windows of its own past. `period` is the number
    of steps after which the calendar repeats, by default what the times say.

    >>> import pandas as pd
    >>> days = pd.date_range("2024-01-01", periods=60, freq="D")
    >>> table = pd.DataFrame({"units": np.arange(60) % 7}, index=days)
    >>> len(forecast_frame(table, ["units"], horizon=7)[0].values)
    7
    """
    check_size("horizon", horizon)
    for level in levels:
        check_between("level", level, 0.01, 0.999)
    _check_targets(frame, targets)
    usual = period_of_frame(frame.loc[:, list(targets)]) if period is None else check_size("period", period)
    if model in (*FAMILIES, "combination") or (model == "auto" and lookback is None and len(frame) < LONG):
        tell(", ".join(targets[:3]))
        return panel_outlooks(frame, targets, horizon, usual, model, sorted(levels))
    from attangent.forecast.pipeline.long import window_outlooks

    return window_outlooks(
        frame, targets, horizon, lookback, model, levels, tell, usual if usual > 1 else None
    )


def _check_targets(frame: pd.DataFrame, targets: Sequence[str]) -> None:
    for target in targets:
        if target not in frame.columns:
            raise AttangentError(
                f"there is no column {target!r}, there are {', '.join(map(str, frame.columns))}"
            )


def period_of_frame(frame: pd.DataFrame) -> int:
    """The period that the times of a frame's rows say, or that its columns show where they are numbered."""
    index = frame.index
    step = find_step(index, np.ones(len(index) - 1, dtype=bool)) if len(index) > 1 else None
    columns = [frame[name].to_numpy(dtype=np.float64) for name in frame.columns]
    return period_of(columns, step) if step is not None else 1
