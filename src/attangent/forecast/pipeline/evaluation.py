"""A comparison of all models on the ends of the series, with the metrics of forecasting competitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from attangent._core.checks import check_choice, check_size
from attangent._core.deprecation import renamed_arguments
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import bars, finished, in_style, one_panel
from attangent.forecast.data.gaps import Gaps
from attangent.forecast.data.panel import SHORTEST, Array, Panel
from attangent.forecast.data.series import SeriesColumns, SeriesSet, read_series
from attangent.forecast.pipeline.backtest import Backtest
from attangent.forecast.pipeline.combination import PanelRequest, candidates, forecast_panel, model_names
from attangent.forecast.pipeline.groups import choose_period, in_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure


QUANTILES = tuple(k / 10 for k in range(1, 10))
ENDS = (0.025, 0.1, 0.9, 0.975)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Errors of every model.

    Attributes:
        table: One row per model, the best first: mase, smape, wql, shares within 80 and 95 % intervals.
        series: Number of series that were scored.
        windows: Number of earlier ends.
        left_out: Number of series too short for any window.
        notes: Changes that were made to the data while reading.
    """

    table: pd.DataFrame
    series: int
    windows: int
    left_out: int
    notes: list[str]

    def __repr__(self) -> str:
        return brief(self, winner=self.winner, series=self.series, windows=self.windows)

    def _repr_html_(self) -> str:
        rows = [
            (str(model), *row) for model, row in zip(self.table.index, self.table.to_numpy(), strict=True)
        ]
        note = f"{self.series} series, {self.windows} windows; {self.left_out} series were too short"
        return table_html(f"Best: {self.winner}", ["model", *map(str, self.table.columns)], rows, [note])

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "MatplotlibFigure":
        """Draw the MASE of each model, the best in colour.

        Args:
            path: File to write as well (.png, .svg or .pdf).

        Returns:
            The figure.
        """
        figure, axes = one_panel((6.4, 1.0 + 0.32 * len(self.table)))
        errors = dict(zip(map(str, self.table.index), self.table["mase"].tolist(), strict=True))
        bars(axes, errors, "MASE, less is better", self.winner)
        return finished(figure, path)

    @property
    def winner(self) -> str:
        """Name of the model with the lowest MASE."""
        return str(self.table.index[0])


@renamed_arguments("0.2", id="id_col", time="time_col", target="target_col")
def evaluate(
    source: Any,
    horizon: int,
    *,
    id_col: str | None = "unique_id",
    time_col: str | None = "ds",
    target_col: str | Sequence[str] = "y",
    period: int | None = None,
    windows: int = 1,
    models: Sequence[str] | None = None,
    gaps: Gaps = "auto",
) -> Evaluation:
    """Compare models on the ends of the series: each forecasts them from what was known before.

    Args:
        source: Frame (pandas, or any with `to_pandas`), CSV or Parquet file, or list of files.
        horizon: Number of steps ahead.
        id_col: Column of ids; None if every target column is a series.
        time_col: Column of times; None takes the only column of dates.
        target_col: Column of values, or several if `id_col` is None.
        period: Number of steps after which the calendar repeats; by default what the times say.
        windows: Number of earlier ends, a horizon apart.
        models: Models to compare; by default all that suit the series.
        gaps: What a missing row means (see `SeriesForecaster`).

    Returns:
        A table with the errors of every model.

    Raises:
        AttangentError: If the series cannot be used, or none is long enough.

    Example:
        >>> months = pd.date_range("2020-01-01", periods=48, freq="MS")
        >>> df = pd.DataFrame({"unique_id": "a", "ds": months, "y": np.arange(48) % 12})
        >>> evaluate(df, 6, models=["seasonal", "persistence"]).winner
        'seasonal'
    """
    if hasattr(source, "lookback"):
        raise AttangentError(
            "evaluate(forecaster, dataset) is now attangent.papers.p5_forecasting.evaluate_windows; this "
            "evaluate takes a table of series"
        )
    check_size("horizon", horizon)
    check_size("windows", windows)
    for name in models or ():
        check_choice("model", name, model_names())
    targets = (target_col,) if isinstance(target_col, str) else tuple(target_col)
    check_choice("gaps", gaps, get_args(Gaps))
    series = read_series(source, SeriesColumns(id_col, time_col, targets), gaps=gaps)
    longest = max(len(values) for values in series.series)
    needed = windows * horizon + SHORTEST
    if longest < needed:
        raise AttangentError(
            f"the longest series has {longest} values, expected at least windows x horizon + {SHORTEST} = "
            f"{needed:,} to hold them out; take a shorter horizon or fewer windows"
        )
    if period is None:
        back = windows * horizon
        known = [values[: len(values) - back] for values in series.series if len(values) - back >= SHORTEST]
        period = choose_period(known, series.step, horizon)
    return _evaluate(series, horizon, period, windows, models)


def _evaluate(
    series: SeriesSet, horizon: int, period: int, windows: int, models: Sequence[str] | None
) -> Evaluation:
    scores: dict[str, list[dict[str, float]]] = {}
    used: set[int] = set()
    for back in (horizon * (k + 1) for k in range(windows)):
        numbers = [k for k, values in enumerate(series.series) if len(values) - back >= SHORTEST]
        used |= set(numbers)
        for group in in_groups([series.series[k] for k in numbers]):
            members = [series.series[numbers[k]] for k in group]
            request = PanelRequest(horizon, period, longer=series.step.longer_period(period))
            for model, score in _scores(members, back, request, models).items():
                scores.setdefault(model, []).append(score)
    rows = {model: _mean(results) for model, results in scores.items()}
    table = pd.DataFrame(rows).T.sort_values("mase", kind="stable").rename_axis("model")
    return Evaluation(table, len(used), windows, len(series.series) - len(used), series.notes)


def _scores(
    series: list[Array], back: int, request: PanelRequest, models: Sequence[str] | None
) -> dict[str, dict[str, float]]:
    """Score the models, by default all that suit the panel, on one group of series."""
    known = [values[: len(values) - back] for values in series]
    panel = Panel.of(known, request.period, longer=request.longer)
    backtest = Backtest.of(panel, request.horizon, models or ())
    actual = np.stack([values[len(values) - back :][: request.horizon] for values in series])
    names = models or ("auto", *candidates(backtest))
    return {name: _score(backtest, actual, name) for name in names}


def _score(backtest: Backtest, actual: Array, model: str) -> dict[str, float]:
    panel = backtest.panel
    request = PanelRequest(backtest.horizon, panel.period, (*ENDS, *QUANTILES), model)
    result = forecast_panel(panel, request, backtest)
    q = result.quantiles
    return {
        "mase": float(mase(actual, result.forecasts, panel.scale).mean()),
        "smape": float(smape(actual, result.forecasts).mean()),
        "wql": weighted_quantile_loss(actual, q[:, :, len(ENDS) :], np.array(QUANTILES)),
        "within 80 %": coverage(actual, q[:, :, 1], q[:, :, 2]),
        "within 95 %": coverage(actual, q[:, :, 0], q[:, :, 3]),
        "series": float(len(panel)),
    }


def _mean(scores: list[dict[str, float]]) -> dict[str, float]:
    weights = np.array([score["series"] for score in scores])
    return {
        name: float(np.average([score[name] for score in scores], weights=weights))
        for name in scores[0]
        if name != "series"
    }


def mase(actual: Array, forecast: Array, scale: Array) -> Array:
    """(N,) mean_h |y - f| / s, s the mean absolute seasonal step of each series before the forecast."""
    return np.abs(actual - forecast).mean(axis=1) / scale


def smape(actual: Array, forecast: Array) -> Array:
    """(N,) mean_h 200 |y - f| / (|y| + |f|), in per cent; 0 if both are 0."""
    size = np.abs(actual) + np.abs(forecast)
    return (200 * np.abs(actual - forecast) / np.where(size > 0, size, 1.0)).mean(axis=1)


def weighted_quantile_loss(actual: Array, quantiles: Array, probabilities: Array) -> float:
    """2 sum_{n,h} rho_p(y - q_p) / sum |y|, averaged over p, with quantiles (N, H, Q): about CRPS / mean |y|.

    >>> weighted_quantile_loss(np.array([[2.0]]), np.array([[[1.0]]]), np.array([0.5]))
    0.5
    """
    error = actual[:, :, None] - quantiles
    loss = np.maximum(probabilities * error, (probabilities - 1) * error)
    size = np.abs(actual).sum()
    return float(2 * loss.sum(axis=(0, 1)).mean() / (size if size > 0 else 1.0))


def coverage(actual: Array, lower: Array, upper: Array) -> float:
    """Return the fraction of values within their interval."""
    return float(((lower <= actual) & (actual <= upper)).mean())
