"""Series from a table to forecasts in a table: `SeriesForecaster`, `forecast_frame` and their result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from attangent._core.checks import check_between, check_choice, check_memory, check_size
from attangent._core.display import brief, table_html, times_of
from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import period_of
from attangent.forecast.data.covariates import Covariates, read_covariates, with_holidays
from attangent.forecast.data.gaps import GAPS, Gaps
from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.series import SeriesColumns, SeriesSet, read_series
from attangent.forecast.models.smoothing import settings
from attangent.forecast.pipeline.combination import MODEL_NAMES, PanelRequest
from attangent.forecast.pipeline.groups import Workers, forecast_groups, mean_errors
from attangent.forecast.pipeline.short_series import SHORT

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

NAME = "attangent"
"""Column of the forecasts."""


@dataclass(frozen=True, repr=False)
class SeriesForecast:
    """Forecasts of one or more series.

    Attributes:
        frame: One row per series and step: id, time, `attangent`, and the requested quantiles.
        errors: Mean error of every model on the past, in units of each series' mean seasonal step.
        why: Reasons for the models, without repetitions.
        models: Model of each series, in the order of the frame.
        series: The series that were forecast.
        expected: Errors of each series on held-out values: mae, rmse, mae of persistence and the coverage
            of the intervals. Empty if they were not measured, or for a series too short to hold any out.

    Example:
        >>> months = pd.date_range("2020-01-01", periods=48, freq="MS")
        >>> result = forecast_frame(pd.DataFrame({"sold": np.arange(48) % 12}, index=months), [], 3)
        >>> result
        SeriesForecast(series=1, steps=3, models=['seasonal'])
    """

    frame: pd.DataFrame
    errors: dict[str, float]
    why: list[str]
    models: list[str]
    series: SeriesSet
    expected: list[dict[str, float]] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """Changes that were made to the data while reading."""
        return self.series.notes

    def __repr__(self) -> str:
        steps = len(self.frame) // max(len(self.models), 1)
        return brief(self, series=len(self.models), steps=steps, models=sorted(set(self.models)))

    def _repr_html_(self) -> str:
        frame = self.plain()
        head = frame.head(12).copy()
        head.isetitem(1, times_of(head.iloc[:, 1]))
        best = min(self.errors, key=lambda name: self.errors[name])
        note = f"least error on the past: {best}, {self.errors[best]:.4g} seasonal steps"
        rows = [
            tuple(cell if isinstance(cell, float) else str(cell) for cell in row) for row in head.to_numpy()
        ]
        more = [f"the first 12 of {len(frame)} rows"] if len(frame) > 12 else []
        told = [
            text for k in range(min(3, len(self.expected))) for text in (self.sentence(k), self.warning(k))
        ]
        notes = [*more, *self.why[:2], note, *told, *self.notes]
        title = f"Forecast of {len(self.models)} series"
        return table_html(title, [*map(str, frame.columns)], rows, [text for text in notes if text])

    def plain(self) -> pd.DataFrame:
        """Return the frame with the column names of `attangent forecast`.

        Returns:
            Columns forecast, lower_80, upper_80 and so on; with a column `model` if the table had ids.
        """
        names = {NAME: "forecast"}
        for name in self.frame.columns:
            if name.startswith(f"{NAME}-"):
                names[name] = name[len(NAME) + 1 :].replace("lo-", "lower_").replace("hi-", "upper_")
        plain = self.frame.rename(columns=names)
        if self.series.columns.id is None:
            return plain
        return plain.assign(model=np.repeat(self.models, len(plain) // len(self.models)))

    def skill(self, k: int = 0) -> float:
        """Return 1 - error / error of repeating the last value, on held-out values of series `k`.

        Args:
            k: Number of the series, in the order of the frame.

        Returns:
            At most 1; 0 if it is unknown.
        """
        usual = self.expected[k].get("mae of persistence", 0.0)
        return 1 - self.expected[k]["mae"] / usual if usual > 0 else 0.0

    def sentence(self, k: int = 0) -> str:
        """Return the expected error of series `k` in words.

        Args:
            k: Number of the series, in the order of the frame.
        """
        expected = self.expected[k]
        if not expected:
            return "the series is too short to measure an expected error, so its intervals are wide"
        compared = ""
        if expected["mae of persistence"] > 0:
            more = "less" if self.skill(k) >= 0 else "more"
            compared = f", {abs(self.skill(k)):.0%} {more} than repeating the last value"
        return (
            f"expect a mean absolute error of {expected['mae']:.4g} (root mean square "
            f"{expected['rmse']:.4g}){compared}; measured on the last {expected['held out']:.0f} times"
        )

    def warning(self, k: int = 0) -> str:
        """Return a warning if the model of series `k` did worse than repeating the last value.

        Args:
            k: Number of the series, in the order of the frame.

        Returns:
            An empty text if there is nothing to warn of.
        """
        if self.skill(k) > -0.05 or self.models[k] == "persistence":
            return ""
        return (
            f"WARNING: on the last {self.expected[k]['held out']:.0f} times {self.models[k]} had "
            f"{-self.skill(k):.0%} more error than repeating the last value; compare with --model "
            "persistence before you rely on it"
        )

    def plot(self, path: str | PathLike[str] | None = None) -> "MatplotlibFigure":
        """Draw past and forecast of up to twelve series.

        Args:
            path: File to write as well (.png, .svg or .pdf).

        Returns:
            The figure.
        """
        from attangent._core.plots import finished
        from attangent.forecast.pipeline.plot import draw_forecast

        return finished(draw_forecast(self), path)


class SeriesForecaster:
    """Forecast every series of a table, with the calls of statsforecast.

    The models depend on the horizon, so `fit` reads and checks the series and `predict` fits.

    Args:
        model: "auto", or the name of a model: combination, smoothing, theta, ridge, linear, seasonal,
            persistence.
        period: Number of steps after which the calendar repeats; by default 12 for months, 7 for days, ...
        id: Column of ids in a long table; None if every target column is a series.
        time: Column of times; None searches for it (only if `id` is None).
        target: Column of values, or several if `id` is None; an empty sequence takes all numeric columns.
        covariates: Columns that are known in advance.
        holidays: Two letters of a country whose holidays matter.
        category: Column with the kind of each series, constant within a series.
        drop_short: Skip series with fewer than three values, with a note, instead of raising.
        gaps: What a missing row means: "zero", "interpolate", "skip" (leave the series out), or "auto", which
            decides per series between zero and interpolation.
        jobs: Number of processes.
        dask: Address of a Dask cluster to use instead.

    Raises:
        AttangentError: If a value is out of range or the model is unknown.

    Example:
        >>> months = pd.date_range("2020-01-01", periods=48, freq="MS")
        >>> df = pd.DataFrame({"unique_id": "a", "ds": months, "y": np.arange(48) % 12})
        >>> SeriesForecaster().fit(df).predict(3, level=[80]).columns.tolist()
        ['unique_id', 'ds', 'attangent', 'attangent-lo-80', 'attangent-hi-80']
    """

    def __init__(
        self,
        model: str = "auto",
        period: int | None = None,
        *,
        id: str | None = "unique_id",
        time: str | None = "ds",
        target: str | Sequence[str] = "y",
        covariates: Sequence[str] = (),
        holidays: str | None = None,
        category: str | None = None,
        drop_short: bool = True,
        gaps: Gaps = "auto",
        jobs: int = 1,
        dask: str | None = None,
    ):
        self.model = check_choice("model", model, MODEL_NAMES)
        self.period = None if period is None else check_size("period", period)
        targets = (target,) if isinstance(target, str) else tuple(target)
        self.columns = SeriesColumns(id, time, targets, category)
        self.covariates = tuple(covariates)
        self.holidays = holidays
        self.drop_short = drop_short
        check_choice("gaps", gaps, GAPS)
        self.gaps = gaps
        self.workers = Workers(check_size("jobs", jobs), dask)

    def fit(self, df: Any) -> Self:
        """Read and check the series.

        Args:
            df: Frame (pandas, or any with `to_pandas`), CSV or Parquet file, or list of files.

        Returns:
            The forecaster.

        Raises:
            AttangentError: If the series cannot be used; the message names the id and the row.
        """
        self.series_: SeriesSet = read_series(df, self.columns, drop_short=self.drop_short, gaps=self.gaps)
        self.history_ = df if self.covariates else None
        self.period_ = self.period or period_of(self.series_.series, self.series_.step)
        self.notes_ = self.series_.notes
        short = sum(len(values) < SHORT for values in self.series_.series)
        if 0 < short < len(self.series_.series):
            self.notes_.append(
                f"{short} series have fewer than {SHORT} values; they are forecast from what the others did, "
                "with wide intervals"
            )
        return self

    def predict(
        self,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: Any = None,
        quantiles: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """Forecast `h` steps after the end of every series.

        Args:
            h: Number of steps ahead.
            level: Levels of prediction intervals in per cent; columns `attangent-lo-80`, `attangent-hi-80`.
            X_df: Covariates of the `h` steps, with ids and times.
            quantiles: Probabilities; columns such as `attangent-q0.1`.

        Returns:
            A long frame with one row per series and step.

        Raises:
            AttangentError: If the forecaster is not fitted or an argument is out of range.
        """
        return self.outlook(h, level, X_df=X_df, quantiles=quantiles).frame

    def outlook(
        self,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: Any = None,
        quantiles: Sequence[float] | None = None,
        measure: bool = False,
        workers: Workers | None = None,
    ) -> SeriesForecast:
        """Forecast like `predict`, with errors, reasons and notes.

        Args:
            h: Number of steps ahead.
            level: Levels of prediction intervals in per cent.
            X_df: Covariates of the `h` steps, with ids and times.
            quantiles: Probabilities.
            measure: Measure the expected error of every series on held-out values.
            workers: Where to run; by default the `jobs` or cluster of the forecaster.

        Returns:
            The forecasts with all that is known of them.

        Raises:
            AttangentError: If the forecaster is not fitted or an argument is out of range.
        """
        if not hasattr(self, "series_"):
            raise AttangentError("SeriesForecaster is not fitted; call fit(df) first")
        columns = _quantile_columns(level, quantiles)
        check_size("h", h)
        check_memory("the forecasts", series=len(self.series_.ids), h=h, numbers=1 + len(columns))
        tried = len(settings(self.period_, persistent_trends=True).alpha)
        check_memory("the seasons", period=self.period_, settings=tried)
        known = self._known(self.series_, h, X_df) if self.covariates or self.holidays else None
        return self._forecast(self.series_, h, columns, known, workers or self.workers, measure)

    def forecast(
        self, df: Any, h: int, level: Sequence[float] | None = None, *, X_df: Any = None
    ) -> pd.DataFrame:
        """Return `fit(df).predict(h, level, X_df=X_df)`.

        Args:
            df: Frame, file, or list of files.
            h: Number of steps ahead.
            level: Levels of prediction intervals in per cent.
            X_df: Covariates of the `h` steps, with ids and times.
        """
        return self.fit(df).predict(h, level, X_df=X_df)

    def cross_validation(
        self,
        df: Any,
        h: int,
        n_windows: int = 1,
        step_size: int | None = None,
        level: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """Forecast from earlier ends of the series, with nothing known after each.

        Args:
            df: Frame, file, or list of files; covariates after a cutoff are read from it.
            h: Number of steps ahead.
            n_windows: Number of earlier ends.
            step_size: Number of steps between them, by default `h`.
            level: Levels of prediction intervals in per cent.

        Returns:
            A long frame with the forecasts, the `cutoff` and the true values. Series too short for a
            cutoff are left out of it.

        Raises:
            AttangentError: If no series is long enough.
        """
        self.fit(df)
        check_size("h", h)
        check_size("n_windows", n_windows)
        step = h if step_size is None else check_size("step_size", step_size)
        columns = _quantile_columns(level, None)
        longest = max(len(values) for values in self.series_.series)
        needed = h + step * (n_windows - 1) + SHORTEST
        if longest < needed:
            raise AttangentError(
                f"the longest series has {longest} values, expected at least h + (n_windows - 1) step_size + "
                f"{SHORTEST} = {needed}; take fewer windows or a shorter horizon"
            )
        frames = []
        for back in (h + step * k for k in reversed(range(n_windows))):
            earlier = self.series_.shortened(back)
            known = self._known(earlier, h, self.history_)
            frame = self._forecast(earlier, h, columns, known, self.workers).frame
            actual = [v[len(v) - back :][:h] for v in self.series_.series if len(v) - back >= SHORTEST]
            frame.insert(2, "cutoff", np.repeat(pd.Index(earlier.last), h))
            frame.insert(3, self._value_column(), np.concatenate(actual))
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def _value_column(self) -> str:
        return "y" if self.columns.id is None else self.columns.targets[0]

    def _known(self, series: SeriesSet, h: int, future: Any) -> Covariates | None:
        """Return what is known of `h` steps after the series: covariates from `future`, and holidays."""
        known = None
        if self.covariates:
            if future is None:
                raise AttangentError(
                    f"the covariates {', '.join(self.covariates)} must be known {h} steps ahead; pass them "
                    "as X_df"
                )
            known = read_covariates(series, self.history_, future, self.covariates, h)
        return known if self.holidays is None else with_holidays(known, series, h, self.holidays)

    def _forecast(
        self,
        series: SeriesSet,
        h: int,
        columns: dict[str, float],
        known: Covariates | None,
        workers: Workers,
        measure: bool = False,
    ) -> SeriesForecast:
        request = PanelRequest(h, self.period_, tuple(columns.values()), self.model, measure)
        results = forecast_groups(series, request, workers, known)
        order = np.argsort(np.concatenate([chosen for chosen, _ in results]))
        forecasts = np.concatenate([result.forecasts for _, result in results])[order]
        quantiles = np.concatenate([result.quantiles for _, result in results])[order]
        models = [result.model for chosen, result in results for _ in chosen]
        expected = [summary for _, result in results for summary in result.expected]
        future = series.future(h)
        table: dict[str, Any] = {
            series.columns.id or "target": np.repeat(np.array(series.ids, dtype=object), h),
            series.columns.time or "time": future[0].append(future[1:]) if len(future) > 1 else future[0],
            NAME: forecasts.reshape(-1),
        }
        for k, name in enumerate(columns):
            table[f"{NAME}{name}"] = quantiles[:, :, k].reshape(-1)
        return SeriesForecast(
            pd.DataFrame(table),
            mean_errors(results),
            list(dict.fromkeys(result.why for _, result in results)),
            [models[k] for k in order],
            series,
            [expected[k] for k in order] if expected else [],
        )


def forecast_frame(
    frame: Any,
    targets: Sequence[str],
    horizon: int,
    *,
    model: str = "auto",
    levels: Sequence[float] = (0.8, 0.95),
    period: int | None = None,
    date: str | None = None,
) -> SeriesForecast:
    """Forecast columns of a table with one row per time, and measure the expected errors.

    Args:
        frame: Frame with times as its index or in a column, or a CSV or Parquet file.
        targets: Columns to forecast; an empty sequence takes all numeric ones.
        horizon: Number of steps ahead.
        model: "auto", or the name of a model (see `SeriesForecaster`).
        levels: Levels of the prediction intervals, between 0 and 1.
        period: Number of steps after which the calendar repeats; by default what the times say.
        date: Column of times; by default the index, or a column that is found.

    Returns:
        The forecasts, with `expected` errors per target.

    Raises:
        AttangentError: If the table cannot be used or an argument is out of range.

    Example:
        >>> days = pd.date_range("2024-01-01", periods=60, freq="D")
        >>> result = forecast_frame(pd.DataFrame({"units": np.arange(60) % 7}, index=days), ["units"], 7)
        >>> result.plain().columns.tolist()
        ['target', 'time', 'forecast', 'lower_80', 'upper_80', 'lower_95', 'upper_95']
    """
    check_size("horizon", horizon)
    for level in levels:
        check_between("level", level, 0.01, 0.999)
    forecaster = SeriesForecaster(model, period, id=None, time=date, target=targets)
    percent = [100 * level for level in levels]
    return forecaster.fit(frame).outlook(horizon, percent, measure=True)


def _quantile_columns(level: Sequence[float] | None, quantiles: Sequence[float] | None) -> dict[str, float]:
    """Return the probability of each requested column."""
    columns: dict[str, float] = {}
    for percent in sorted(level or ()):
        check_between("level", percent, 1, 99.9)
        columns[f"-lo-{percent:g}"] = 0.5 - percent / 200
        columns[f"-hi-{percent:g}"] = 0.5 + percent / 200
    for probability in sorted(quantiles or ()):
        check_between("quantile", probability, 0.001, 0.999)
        columns[f"-q{probability:g}"] = float(probability)
    return columns
