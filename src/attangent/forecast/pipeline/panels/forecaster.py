"""Many series from a long frame to forecasts in a long frame, with the calls of statsforecast."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.checks import check_between, check_choice, check_size
from attangent._core.display import brief, table_html, times_of
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.plots import finished
from attangent.forecast.data.covariates import Covariates, read_covariates, with_holidays
from attangent.forecast.data.long_frames import Columns, SeriesSet, read_long
from attangent.forecast.data.panel import SHORTEST
from attangent.forecast.data.periods import period_of
from attangent.forecast.models.panels.grid import settings
from attangent.forecast.pipeline.panels.forecast import PANEL_MODELS, PanelForecast
from attangent.forecast.pipeline.panels.groups import Crew, Work, combined_errors, run_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Array = NDArray[np.float64]
Show = Callable[[int, int], None]


@dataclass(frozen=True, repr=False)
class SetForecast:
    """The forecasts of a set: a long frame, the errors of every model on the past, and the reasons."""

    frame: pd.DataFrame
    errors: dict[str, float]
    why: list[str]
    models: list[str]
    """The model of each series, in the order of the frame."""
    notes: list[str] = field(default_factory=list)
    given: SeriesSet | None = field(default=None, compare=False)
    """The series that were forecast."""

    def __repr__(self) -> str:
        steps = len(self.frame) // max(len(self.models), 1)
        return brief(self, series=len(self.models), steps=steps, models=sorted(set(self.models)))

    def _repr_html_(self) -> str:
        frame = self.plain()
        head = frame.head(12).copy()
        head.iloc[:, 1] = times_of(head.iloc[:, 1])
        title = f"Forecast of {len(self.models)} series"
        best = min(self.errors, key=lambda name: self.errors[name])
        note = f"least error on the past: {best}, {self.errors[best]:.4g} seasonal steps"
        rows = [tuple(map(_shown, row)) for row in head.to_numpy()]
        left = [f"the first 12 of {len(frame)} rows"] if len(frame) > 12 else []
        return table_html(title, [*map(str, frame.columns)], rows, [*left, *self.why[:2], note, *self.notes])

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw up to twelve of the series with their forecasts; also to a file, where one is named."""
        from attangent.forecast.pipeline.panels.pictures import figure_of

        if self.given is None:
            raise AttangentError("the series are not kept with this forecast: make it by SeriesForecaster")
        return finished(figure_of(self.given, self), path)

    def plain(self) -> pd.DataFrame:
        """The frame with the names of `attangent forecast`: forecast, lower_80, upper_80, and model."""
        names = {"attangent": "forecast"}
        for name in self.frame.columns:
            if name.startswith("attangent-"):
                names[name] = name[10:].replace("lo-", "lower_").replace("hi-", "upper_")
        steps = len(self.frame) // len(self.models)
        return self.frame.rename(columns=names).assign(model=np.repeat(self.models, steps))


class SeriesForecaster:
    """Forecasts of every series of a long frame; `Forecaster` is the base class of models of one series.

    Frames have the columns `id`, `time` and `target`. `period` is the number of steps after which the
    calendar repeats, by default 12 for months, 7 for days and so on. `covariates` names columns that are
    known in advance, `holidays` a country by its two letters, `category` a column that says what kind of
    series each is. The models depend on the horizon, so `fit` reads and checks the series and `predict` fits.

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
        id: str = "unique_id",
        time: str = "ds",
        target: str = "y",
        covariates: Sequence[str] = (),
        holidays: str | None = None,
        category: str | None = None,
        drop_short: bool = False,
        jobs: int = 1,
        dask: str | None = None,
    ):
        check_choice("model", model, ("auto", *PANEL_MODELS))
        self.model, self.drop_short = model, drop_short
        self.period = None if period is None else check_size("period", period)
        self.columns = Columns(id, time, target, category)
        self.covariates, self.holidays = tuple(covariates), holidays
        self.jobs, self.dask = check_size("jobs", jobs), dask

    def fit(self, df: Any) -> Self:
        """Read and check a long frame, a CSV or Parquet file, or a list of files."""
        self.series_: SeriesSet = read_long(df, self.columns, drop_short=self.drop_short)
        self.history_ = df if self.covariates else None
        self.period_ = self.period or period_of(self.series_.series, self.series_.step)
        self.notes_ = self.series_.notes
        return self

    def predict(
        self,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: Any = None,
        quantiles: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """`h` steps after the end of every series, as a long frame.

        `level` in per cent gives columns `attangent-lo-80` and `attangent-hi-80`, `quantiles` columns
        `attangent-q0.1`. `X_df` holds the covariates of the `h` steps, with ids and times.
        """
        return self.outlook(h, level, X_df=X_df, quantiles=quantiles).frame

    def outlook(
        self,
        h: int,
        level: Sequence[float] | None = None,
        *,
        X_df: Any = None,
        quantiles: Sequence[float] | None = None,
        folder: Path | None = None,
        show: Show = lambda done, total: None,
    ) -> SetForecast:
        """The same with errors, reasons and notes; groups that are done are kept in `folder`."""
        if not hasattr(self, "series_"):
            raise AttangentError("SeriesForecaster is not fitted: call fit(df) first")
        asked = _Wanted.of(level, quantiles)
        numbers = 1 + len(asked.probabilities)
        check_memory("the forecasts", series=len(self.series_.ids), h=check_size("h", h), numbers=numbers)
        tried = len(settings(self.period_, persistent_trends=True).alpha)
        check_memory("the seasons", period=self.period_, settings=tried)
        known = self._known(self.series_, h, X_df)
        return self._forecast(self.series_, h, asked, Crew(self.jobs, self.dask, folder), show, known)

    def _known(self, given: SeriesSet, h: int, future: Any) -> Covariates | None:
        """What is known of `h` steps after the ends of these series: covariates from `future`, holidays."""
        known = None
        if self.covariates:
            if future is None:
                raise AttangentError(
                    f"the covariates {', '.join(self.covariates)} must be known {h} steps ahead: "
                    "give them as X_df"
                )
            known = read_covariates(given, self.history_, future, self.covariates, h)
        return known if self.holidays is None else with_holidays(known, given, h, self.holidays)

    def forecast(
        self, df: Any, h: int, level: Sequence[float] | None = None, *, X_df: Any = None
    ) -> pd.DataFrame:
        """fit(df).predict(h, level, X_df=X_df)."""
        return self.fit(df).predict(h, level, X_df=X_df)

    def cross_validation(
        self,
        df: Any,
        h: int,
        n_windows: int = 1,
        step_size: int | None = None,
        level: Sequence[float] | None = None,
    ) -> pd.DataFrame:
        """Forecasts from `n_windows` earlier ends, `step_size` apart, beside what came (`y`), with `cutoff`.

        Every model is fitted and chosen anew on what was known at each cutoff; covariates after it are those
        of `df`. Series too short for a cutoff are left out of it.
        """
        self.fit(df)
        check_size("h", h)
        check_size("n_windows", n_windows)
        step = h if step_size is None else check_size("step_size", step_size)
        asked = _Wanted.of(level, None)
        longest = max(len(one) for one in self.series_.series)
        needed = h + step * (n_windows - 1) + SHORTEST
        if longest < needed:
            raise AttangentError(
                f"the longest series has {longest} values, expected at least h + (n_windows - 1) step_size + "
                f"{SHORTEST} = {needed}: take fewer windows or a shorter horizon"
            )
        backs = [h + step * k for k in reversed(range(n_windows))]
        return pd.concat([self._window(back, h, asked) for back in backs], ignore_index=True)

    def _window(self, back: int, h: int, asked: "_Wanted") -> pd.DataFrame:
        earlier = self.series_.shortened(back)
        known = self._known(earlier, h, self.history_)
        frame = self._forecast(earlier, h, asked, Crew(self.jobs, self.dask), known=known).frame
        actual = [one[len(one) - back :][:h] for one in self.series_.series if len(one) - back >= SHORTEST]
        frame.insert(2, "cutoff", np.repeat(pd.Index(earlier.last), h))
        frame.insert(3, self.columns.target, np.concatenate(actual))
        return frame

    def _forecast(
        self,
        given: SeriesSet,
        h: int,
        asked: "_Wanted",
        crew: Crew,
        show: Show = lambda done, total: None,
        known: Covariates | None = None,
    ) -> SetForecast:
        work = Work(h, self.period_, asked.probabilities, self.model)
        found = run_groups(given.series, work, crew, show, known, given.category)
        why = list(dict.fromkeys(one.why for _, one in found))
        models = [""] * len(given.ids)
        for group, one in found:
            for k in group:
                models[k] = one.model
        frame = _long(given, found, h, asked)
        return SetForecast(frame, combined_errors(found), why, models, list(given.notes), given)


def _shown(value: Any) -> Any:
    return value if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Wanted:
    """Probabilities in rising order and, for each, the column it goes to."""

    probabilities: tuple[float, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, level: Sequence[float] | None, quantiles: Sequence[float] | None) -> "_Wanted":
        asked: list[tuple[str, float]] = []
        for one in sorted(level or ()):
            check_between("level", one, 1, 99.9)
            asked += [(f"-lo-{one:g}", 0.5 - one / 200), (f"-hi-{one:g}", 0.5 + one / 200)]
        for one in sorted(quantiles or ()):
            check_between("quantile", one, 0.001, 0.999)
            asked.append((f"-q{one:g}", float(one)))
        return cls(tuple(p for _, p in asked), tuple(name for name, _ in asked))


def _long(
    given: SeriesSet, found: Sequence[tuple[NDArray[np.int64], PanelForecast]], h: int, asked: _Wanted
) -> pd.DataFrame:
    """One row for each series and step, series in the order they were given."""
    order = np.concatenate([group for group, _ in found])
    place = np.argsort(order)
    forecasts = np.concatenate([one.forecasts for _, one in found])[place]
    quantiles = np.concatenate([one.quantiles for _, one in found])[place]
    future = given.future(h)
    times = future[0].append(future[1:]) if len(future) > 1 else future[0]
    columns: dict[str, Any] = {
        given.columns.id: np.repeat(np.array(given.ids, dtype=object), h),
        given.columns.time: times,
        "attangent": forecasts.reshape(-1),
    }
    for k, name in enumerate(asked.names):
        columns[f"attangent{name}"] = quantiles[:, :, k].reshape(-1)
    return pd.DataFrame(columns)
