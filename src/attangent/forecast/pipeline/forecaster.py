"""Series from a table to forecasts in a table: `SeriesForecaster` and `forecast_frame`."""

from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Self

import numpy as np
import pandas as pd

from attangent._core.checks import check_between, check_choice, check_memory, check_names, check_size
from attangent._core.deprecation import renamed_arguments
from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import period_of
from attangent.forecast.data.covariates import Covariates, read_covariates, with_holidays
from attangent.forecast.data.gaps import GAPS, Gaps
from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.series import SeriesColumns, SeriesSet, read_series
from attangent.forecast.models.smoothing import settings
from attangent.forecast.pipeline.combination import MODEL_NAMES, PanelRequest
from attangent.forecast.pipeline.groups import Workers, forecast_groups, mean_errors
from attangent.forecast.pipeline.result import NAME, SeriesForecast, quantile_columns, side_by_side
from attangent.forecast.pipeline.seasons import choose_period
from attangent.forecast.pipeline.short_series import SHORT


class SeriesForecaster:
    """Forecast every series of a table, with the calls of statsforecast.

    The models depend on the horizon, so `fit` reads and checks the series and `predict` fits.

    Args:
        models: "auto", or the name of a model: combination, smoothing, theta, ridge, linear, intermittent,
            seasonal, persistence. A list gives one column per name.
        period: Number of steps after which the calendar repeats; by default 12 for months, 7 for days, ...
            Weekly series, and those sampled several times per day, choose between two by held-out errors.
        freq: Step between times as pandas writes it ("D", "MS"), or a number; by default found.
        id_col: Column of ids in a long table; None if every target column is a series.
        time_col: Column of times; None searches for it (only if `id_col` is None).
        target_col: Column of values, or several if `id_col` is None; an empty sequence takes all numeric
            columns.
        covariates: Columns that are known in advance.
        holidays: Two letters of a country whose holidays matter.
        category: Column with the kind of each series, constant within a series.
        drop_short: Skip series with fewer than three values, with a note, instead of raising.
        gaps: What a missing row means: "zero", "interpolate", "skip" (leave the series out), or "auto", which
            decides per series between zero and interpolation.
        n_jobs: Number of processes.
        dask: Address of a Dask cluster to use instead; "local" starts one on this machine.

    Raises:
        AttangentError: If a value is out of range or the model is unknown.

    Example:
        >>> months = pd.date_range("2020-01-01", periods=48, freq="MS")
        >>> df = pd.DataFrame({"unique_id": "a", "ds": months, "y": np.arange(48) % 12})
        >>> SeriesForecaster().fit(df).predict(3, level=[80]).columns.tolist()
        ['unique_id', 'ds', 'attangent', 'attangent-lo-80', 'attangent-hi-80']
    """

    @renamed_arguments(
        "0.2", model="models", id="id_col", time="time_col", target="target_col", jobs="n_jobs"
    )
    def __init__(
        self,
        models: str | Sequence[str] = "auto",
        period: int | None = None,
        *,
        freq: str | int | None = None,
        id_col: str | None = "unique_id",
        time_col: str | None = "ds",
        target_col: str | Sequence[str] = "y",
        covariates: Sequence[str] = (),
        holidays: str | None = None,
        category: str | None = None,
        drop_short: bool = True,
        gaps: Gaps = "auto",
        n_jobs: int = 1,
        dask: str | None = None,
    ):
        for name in _listed(models):
            check_choice("model", name, MODEL_NAMES)
        if period is not None:
            check_size("period", period)
        check_choice("gaps", gaps, GAPS)
        check_size("n_jobs", n_jobs)
        # As scikit-learn's clone expects, parameters are stored as they came.
        self.models = models
        self.period = period
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_col = target_col
        self.covariates = covariates
        self.holidays = holidays
        self.category = category
        self.drop_short = drop_short
        self.gaps: Gaps = gaps
        self.n_jobs = n_jobs
        self.dask = dask

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor by name, as scikit-learn's estimators do.

        Args:
            deep: Accepted for scikit-learn; there are no nested estimators.
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor.

        Args:
            **params: New values by name.

        Returns:
            The forecaster.

        Raises:
            AttangentError: If a name is unknown or a value is out of range.
        """
        known = self.get_params()
        check_names(params, known, "SeriesForecaster")
        self.__init__(**(known | params))
        return self

    @property
    def columns(self) -> SeriesColumns:
        """Names of the columns that the series are read from."""
        return SeriesColumns(self.id_col, self.time_col, _listed(self.target_col), self.category)

    @property
    def workers(self) -> Workers:
        """Where groups of series are forecast."""
        return Workers(self.n_jobs, self.dask)

    def fit(self, df: Any) -> Self:
        """Read and check the series.

        Args:
            df: Frame (pandas, or any with `to_pandas`), CSV or Parquet file, or list of files.

        Returns:
            The forecaster.

        Raises:
            AttangentError: If the series cannot be used; the message names the id and the row.
        """
        self.series_: SeriesSet = read_series(
            df, self.columns, drop_short=self.drop_short, gaps=self.gaps, freq=self.freq
        )
        self.history_ = df if self.covariates else None
        self.polars_ = type(df).__module__.partition(".")[0] == "polars"
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
        names = _listed(self.models)
        frames = [self.outlook(h, level, X_df=X_df, quantiles=quantiles, model=name).frame for name in names]
        return self._as_given(side_by_side(self.models, frames))

    def outlook(
        self,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: Any = None,
        quantiles: Sequence[float] | None = None,
        measure: bool = False,
        workers: Workers | None = None,
        model: str | None = None,
    ) -> SeriesForecast:
        """Forecast like `predict`, with errors, reasons and notes.

        Args:
            h: Number of steps ahead.
            level: Levels of prediction intervals in per cent.
            X_df: Covariates of the `h` steps, with ids and times.
            quantiles: Probabilities.
            measure: Measure the expected error of every series on held-out values.
            workers: Where to run; by default the `n_jobs` or cluster of the forecaster.
            model: Model to use; by default the first of the forecaster.

        Returns:
            The forecasts with all that is known of them.

        Raises:
            AttangentError: If the forecaster is not fitted or an argument is out of range.
        """
        if not hasattr(self, "series_"):
            raise AttangentError("SeriesForecaster is not fitted; call fit(df) first")
        columns = quantile_columns(level, quantiles)
        check_size("h", h)
        self.period_ = self.period or choose_period(self.series_.series, self.series_.step, h)
        check_memory("the forecasts", series=len(self.series_.ids), h=h, numbers=1 + len(columns))
        tried = len(settings(self.period_, persistent_trends=True).alpha)
        check_memory("the seasons", period=self.period_, settings=tried)
        known = self._known(self.series_, h, X_df) if self.covariates or self.holidays else None
        model = model or _listed(self.models)[0]
        return self._forecast(self.series_, h, columns, known, workers or self.workers, model, measure)

    def forecast(
        self,
        df: Any,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: Any = None,
        quantiles: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """Return `fit(df).predict(h, level, X_df=X_df, quantiles=quantiles)`.

        Args:
            df: Frame, file, or list of files.
            h: Number of steps ahead.
            level: Levels of prediction intervals in per cent.
            X_df: Covariates of the `h` steps, with ids and times.
            quantiles: Probabilities.
        """
        return self.fit(df).predict(h, level, X_df=X_df, quantiles=quantiles)

    def cross_validation(
        self,
        df: Any,
        h: int,
        n_windows: int = 1,
        step_size: int | None = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """Forecast from earlier ends of the series, with nothing known after each.

        Args:
            df: Frame, file, or list of files; covariates after a cutoff are read from it.
            h: Number of steps ahead.
            n_windows: Number of earlier ends.
            step_size: Number of steps between them, by default `h`.
            level: Levels of prediction intervals in per cent.
            quantiles: Probabilities; columns such as `attangent-q0.1`.

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
        columns = quantile_columns(level, quantiles)
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
            self.period_ = self.period or choose_period(earlier.series, earlier.step, h)
            frame = side_by_side(
                self.models,
                [
                    self._forecast(earlier, h, columns, known, self.workers, name).frame
                    for name in _listed(self.models)
                ],
            )
            actual = [v[len(v) - back :][:h] for v in self.series_.series if len(v) - back >= SHORTEST]
            frame.insert(2, "cutoff", np.repeat(pd.Index(earlier.last), h))
            frame.insert(3, self._value_column(), np.concatenate(actual))
            frames.append(frame)
        return self._as_given(pd.concat(frames, ignore_index=True))

    def _as_given(self, frame: pd.DataFrame) -> Any:
        """Return a polars frame if the series came from one."""
        return import_module("polars").from_pandas(frame) if self.polars_ else frame

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
        model: str,
        measure: bool = False,
    ) -> SeriesForecast:
        request = PanelRequest(h, self.period_, tuple(columns.values()), model, measure)
        results = forecast_groups(series, request, workers, known)
        order = np.argsort(np.concatenate([chosen for chosen, _ in results]))
        forecasts = np.concatenate([result.forecasts for _, result in results])[order]
        quantiles = np.concatenate([result.quantiles for _, result in results])[order]
        models = [name for _, result in results for name in result.models]
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
        ['target', 'time', 'forecast', 'forecast-lo-80', 'forecast-hi-80', 'forecast-lo-95', 'forecast-hi-95']
    """
    check_size("horizon", horizon)
    for level in levels:
        check_between("level", level, 0.01, 0.999)
    forecaster = SeriesForecaster(model, period, id_col=None, time_col=date, target_col=targets)
    percent = [100 * level for level in levels]
    return forecaster.fit(frame).outlook(horizon, percent, measure=True)


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
