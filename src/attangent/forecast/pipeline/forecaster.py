"""Series from a table to forecasts in a table: `SeriesForecaster`."""

from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Self, get_args

import numpy as np
import pandas as pd

from attangent._core.checks import check_between, check_choice, check_memory, check_names, check_size
from attangent._core.deprecation import renamed_arguments
from attangent._core.errors import AttangentError
from attangent.forecast.data.calendar import period_of
from attangent.forecast.data.covariates import known_ahead
from attangent.forecast.data.gaps import Gaps
from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.series import SeriesColumns, SeriesSet, SeriesSource, read_series
from attangent.forecast.models.smoothing import settings
from attangent.forecast.pipeline.combination import PanelRequest, model_names
from attangent.forecast.pipeline.fitted import fitted_frame
from attangent.forecast.pipeline.groups import Workers, choose_period, forecast_groups, mean_errors
from attangent.forecast.pipeline.hierarchy import Hierarchy, Reconcile
from attangent.forecast.pipeline.result import (
    NAME,
    SeriesForecast,
    long_frame,
    quantile_columns,
    side_by_side,
    with_errors,
)
from attangent.forecast.pipeline.short_series import SHORT

READ_CATEGORIES = ("auto", "combination", "ridge")
"""Models that use the categories of series."""


class SeriesForecaster:
    """Forecast every series of a table, with the calls of statsforecast.

    The models depend on the horizon, so `fit` reads and checks the series and `predict` fits.

    Args:
        models: "auto", or the name of a model: combination, smoothing, theta, ridge, folded, linear,
            intermittent, seasonal, persistence. A list gives one column per name.
        period: Number of steps after which the calendar repeats; by default 12 for months, 7 for days, ...
            Weekly series, and those sampled several times per day, choose between two by held-out errors.
        freq: Step between times as pandas writes it ("D", "MS"), or a number; by default found.
        id_col: Column of ids in a long table, or several ("store,item"); None if every target column is a
            series.
        time_col: Column of times; None takes the only column of dates.
        target_col: Column of values, or several if `id_col` is None; an empty sequence takes all numeric
            columns.
        covariates: Columns that are known in advance.
        holidays: Two letters of a country whose holidays matter.
        category: Column with the kind of each series, constant within a series.
        drop_short: Skip series with fewer than three values, with a note, instead of raising.
        gaps: What a missing row means: "zero", "interpolate", "skip" (leave the series out), or "auto", which
            counts closed days (such as Sundays) and days without sales as zero, and interpolates the rest.
        hierarchy: Columns that group the series, from the top ("region", "shop"). Totals of all groups are
            forecast as well and equal the sums of their series.
        reconcile: How: "mint" changes the forecasts of all nodes as little as their errors allow,
            "bottom-up" sums the forecasts of the series.
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
        hierarchy: Sequence[str] = (),
        reconcile: Reconcile = "mint",
        n_jobs: int = 1,
        dask: str | None = None,
    ):
        for name in _listed(models):
            check_choice("model", name, model_names())
        if period is not None:
            check_size("period", period)
        check_choice("gaps", gaps, get_args(Gaps))
        check_choice("reconcile", reconcile, get_args(Reconcile))
        check_size("n_jobs", n_jobs)
        if category is not None and not {*_listed(models)} & {*READ_CATEGORIES}:
            raise AttangentError(
                f"category has no effect on the model {', '.join(_listed(models))}; leave it out, or choose "
                f"{' or '.join(READ_CATEGORIES)}"
            )
        if hierarchy and covariates:
            raise AttangentError("covariates have no values for totals; use either a hierarchy or covariates")
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
        self.hierarchy = hierarchy
        self.reconcile: Reconcile = reconcile
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
        check_names(params, known, type(self).__name__)
        self.__init__(**(known | params))
        return self

    def fit(self, df: SeriesSource) -> Self:
        """Read and check the series.

        Args:
            df: Frame (pandas, or any with `to_pandas`), CSV or Parquet file, or list of files.

        Returns:
            The forecaster.

        Raises:
            AttangentError: If the series cannot be used; the message names the id and the row.
        """
        columns = SeriesColumns(self.id_col, self.time_col, _listed(self.target_col), self.category)
        self.series_: SeriesSet = read_series(
            df, columns, drop_short=self.drop_short, gaps=self.gaps, freq=self.freq
        )
        self.hierarchy_ = Hierarchy.read(df, self.hierarchy, self.series_) if self.hierarchy else None
        self.nodes_ = self.series_ if self.hierarchy_ is None else self.hierarchy_.extended(self.series_)
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
        X_df: SeriesSource | None = None,
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

        Example:
            >>> days = pd.date_range("2024-01-01", periods=28)
            >>> df = pd.DataFrame({"unique_id": "a", "ds": days, "y": np.arange(28) % 7})
            >>> SeriesForecaster().fit(df).predict(2, quantiles=[0.1]).columns.tolist()
            ['unique_id', 'ds', 'attangent', 'attangent-q0.1']
        """
        names = _listed(self.models)
        frames = [self.outlook(h, level, X_df=X_df, quantiles=quantiles, model=name).frame for name in names]
        return self._as_given(side_by_side(self.models, frames))

    def outlook(
        self,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: SeriesSource | None = None,
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
        self._check_fitted()
        columns = quantile_columns(level, quantiles)
        check_size("h", h)
        self.period_ = self.period or choose_period(self.series_.series, self.series_.step, h)
        series = self.nodes_
        check_memory("the forecasts", series=len(series.ids), h=h, numbers=1 + len(columns))
        tried = len(settings(self.period_, persistent_trends=True).alpha)
        check_memory("the seasons", period=self.period_, settings=tried)
        model = _listed(self.models)[0] if model is None else check_choice("model", model, model_names())
        workers = workers or Workers(self.n_jobs, self.dask)
        return self._forecast(series, h, columns, X_df, workers, model, measure)

    def forecast(
        self,
        df: SeriesSource,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: SeriesSource | None = None,
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
        df: SeriesSource | None,
        h: int,
        n_windows: int = 1,
        step_size: int | None = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """Forecast from earlier ends of the series, with nothing known after each.

        Args:
            df: Frame, file, or list of files; covariates after a cutoff are read from it. None uses the
                series of the last `fit`.
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
        if df is not None:
            self.fit(df)
        self._check_fitted()
        fitted_period = self.period_
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
        workers = Workers(self.n_jobs, self.dask)
        frames = []
        for back in (h + step * k for k in reversed(range(n_windows))):
            bottom = self.series_.shortened(back)
            earlier = bottom if self.hierarchy_ is None else self.hierarchy_.extended(bottom)
            self.period_ = self.period or choose_period(bottom.series, bottom.step, h)
            frame = side_by_side(
                self.models,
                [
                    self._forecast(earlier, h, columns, self.history_, workers, name).frame
                    for name in _listed(self.models)
                ],
            )
            later = [v[len(v) - back :][:h] for v in self.series_.series if len(v) - back >= SHORTEST]
            actual = np.stack(later)
            if self.hierarchy_ is not None:
                actual = np.concatenate((actual, self.hierarchy_.membership(earlier.ids) @ actual))
            frame.insert(2, "cutoff", np.repeat(pd.Index(earlier.last), h))
            frame.insert(3, "y" if self.id_col is None else _listed(self.target_col)[0], actual.ravel())
            frames.append(frame)
        self.period_ = fitted_period
        return self._as_given(pd.concat(frames, ignore_index=True))

    def forecast_fitted_values(self, level: Sequence[float] = (99,)) -> pd.DataFrame:
        """Return one-step forecasts of exponential smoothing over the past, and flag anomalies.

        Settings are fitted to the complete past. Covariates and holidays are not used.

        Args:
            level: Levels of the intervals in per cent.

        Returns:
            A long frame with a row per value: the fitted value, intervals, and `anomaly`, which is True
            outside the widest interval.

        Raises:
            AttangentError: If the forecaster is not fitted or a level is out of range.
        """
        self._check_fitted()
        quantile_columns(level, None)
        return self._as_given(fitted_frame(self.nodes_, self.period_, level))

    def _check_fitted(self) -> None:
        if not hasattr(self, "series_"):
            raise AttangentError("SeriesForecaster is not fitted; call fit(df) first")

    def _as_given(self, frame: pd.DataFrame) -> Any:
        """Return a polars frame if the series came from one."""
        return import_module("polars").from_pandas(frame) if self.polars_ else frame

    def _forecast(
        self,
        series: SeriesSet,
        h: int,
        columns: dict[str, float],
        future: Any,
        workers: Workers,
        model: str,
        measure: bool = False,
    ) -> SeriesForecast:
        known = None
        if self.covariates or self.holidays is not None:
            known = known_ahead(series, self.history_, future, self.covariates, self.holidays, h)
        longer = series.step.longer_period(self.period_)
        request = PanelRequest(h, self.period_, tuple(columns.values()), model, measure, longer)
        results = forecast_groups(series, request, workers, known)
        order = np.argsort(np.concatenate([chosen for chosen, _ in results]))
        forecasts = np.concatenate([result.forecasts for _, result in results])[order]
        quantiles = np.concatenate([result.quantiles for _, result in results])[order]
        if self.hierarchy_ is not None:
            coherent = self.hierarchy_.reconciled(series, forecasts, self.period_, self.reconcile)
            quantiles = series.non_negative(quantiles + (coherent - forecasts)[:, :, None])
            forecasts = coherent
        models = [name for _, result in results for name in result.models]
        expected = [summary for _, result in results for summary in result.expected]
        errors = mean_errors(results)
        values = {NAME: forecasts} | {f"{NAME}{end}": quantiles[:, :, k] for k, end in enumerate(columns)}
        contributions = None
        if known is not None:
            added = np.concatenate([result.added for _, result in results])[order]
            parts = {name: added[:, :, k] for k, name in enumerate(known.names)}
            parts = {"baseline": forecasts - added.sum(axis=2)} | parts
            contributions = long_frame(series, series.future(h), parts)
        return SeriesForecast(
            long_frame(series, series.future(h), values),
            errors,
            with_errors([result.why for _, result in results], errors),
            [models[k] for k in order],
            series,
            [expected[k] for k in order] if expected else [],
            contributions,
        )


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


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
        >>> import numpy as np
        >>> import pandas as pd
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
