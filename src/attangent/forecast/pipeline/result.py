"""The result of a forecast: one row per series and step, with errors, reasons, notes and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attangent._core.checks import check_between
from attangent._core.display import brief, table_html, times_of
from attangent._core.plots import COLOURS, FAINT, PAST, finished, in_style, panels
from attangent.forecast.data.series import SeriesSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure


NAME = "attangent"
"""Column of the forecasts."""
MOST = 12
"""Number of series that are drawn, evenly spaced over all."""
BASELINES = {"persistence": "repeating the last value", "seasonal": "repeating the last season"}
"""Models that every forecast is compared with, in words."""


@dataclass(frozen=True, repr=False)
class SeriesForecast:
    """Forecasts of one or more series.

    Attributes:
        frame: One row per series and step: id, time, `attangent`, and the requested quantiles.
        errors: MASE of every model on the past: its mean error in units of each series' mean seasonal step.
        why: Reasons for the models, without repetitions.
        models: Model of each series, in the order of the frame.
        series: The series that were forecast.
        expected: Errors of each series on held-out values: mae, rmse, mae of persistence and the coverage
            of the intervals. Empty if they were not measured, or for a series too short to hold any out.
        contributions: With covariates, one row per series and step: the `baseline` without their changes and
            the contribution of each; their sum is the forecast.

    Example:
        >>> from attangent.forecast import forecast_frame
        >>> months = pd.date_range("2020-01-01", periods=48, freq="MS")
        >>> result = forecast_frame(pd.DataFrame({"sold": np.arange(48) % 12}, index=months), [], 3)
        >>> result
        SeriesForecast(series=1, steps=3, models=['combination'])
    """

    frame: pd.DataFrame
    errors: dict[str, float]
    why: list[str]
    models: list[str]
    series: SeriesSet
    expected: list[dict[str, float]] = field(default_factory=list)
    contributions: pd.DataFrame | None = None

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
        note = f"lowest MASE on the past: {best}, {self.errors[best]:.3f}"
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
            Columns forecast, forecast-lo-80, forecast-hi-80 and so on, and `model` if the table had ids.
        """
        names = {name: f"forecast{name[len(NAME) :]}" for name in self.frame if name.startswith(NAME)}
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
        return finished(_drawn(self), path)


def with_errors(reasons: Sequence[str], errors: dict[str, float]) -> list[str]:
    """Return the reasons without repetitions, the first with the MASE of the combination and a baseline."""
    distinct = list(dict.fromkeys(reasons))
    baseline = min(BASELINES, key=lambda name: errors.get(name, np.inf))
    values = [errors.get(name, np.nan) for name in ("combination", baseline)]
    if "on the past" in distinct[0] and np.isfinite(values).all():
        measured = f"MASE {values[0]:.3f} on the past; {BASELINES[baseline]}: {values[1]:.3f}"
        distinct[0] = f"{distinct[0]} ({measured})"
    return distinct


def long_frame(series: SeriesSet, times: list[pd.Index], columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a frame with a row per series and time: id, time, and columns by name, flattened."""
    counts = [len(index) for index in times]
    keys = {
        series.columns.id or "target": np.repeat(np.array(series.ids, dtype=object), counts),
        series.columns.time or "time": times[0].append(times[1:]) if len(times) > 1 else times[0],
    }
    return pd.DataFrame(keys | {name: values.reshape(-1) for name, values in columns.items()})


def side_by_side(models: str | Sequence[str], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the forecasts of several models; their columns start with the name of the model."""
    if isinstance(models, str):
        return frames[0]
    named = [
        frame.set_axis([column.replace(NAME, name, 1) for column in frame.columns], axis="columns")
        for name, frame in zip(models, frames, strict=True)
    ]
    return pd.concat([named[0], *(frame.iloc[:, 2:] for frame in named[1:])], axis=1)


def quantile_columns(level: Sequence[float] | None, quantiles: Sequence[float] | None) -> dict[str, float]:
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


@in_style
def _drawn(result: SeriesForecast) -> Any:
    """Draw up to twelve series, one panel each: a column of wide panels if there are at most three."""
    count = len(result.series.ids)
    shown = np.unique(np.linspace(0, count - 1, min(MOST, count)).astype(int))
    wide = len(shown) <= 3
    figure, axes = panels(len(shown), 1 if wide else 3, (9.0, 2.8) if wide else (4.2, 2.5))
    for panel, k in zip(axes, shown, strict=True):
        past, values = _past_and_values(result, int(k))
        _draw(panel, past, values, result.models[k])
        _set_times(panel, past.index, most=8 if wide else 6)
        panel.set_title(str(result.series.ids[k]))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def _past_and_values(result: SeriesForecast, k: int) -> tuple[pd.Series, pd.DataFrame]:
    series = result.series
    steps = len(result.frame) // len(series.ids)
    plain = result.plain().iloc[k * steps : (k + 1) * steps]
    past = series.series[k][-max(4 * steps, 36) :]
    times = series.step.apart(series.last[k], np.arange(1 - len(past), 1))
    return pd.Series(past, index=times), plain.set_index(plain.columns[1])


def _draw(panel: Any, past: pd.Series, values: pd.DataFrame, name: str) -> None:
    """Draw past, intervals and the forecast, which starts from the last value of the past."""
    panel.plot(past.index, past.to_numpy(), color=PAST, lw=1.1, label="past")
    index = past.index[-1:].append(values.index)
    start = past.to_numpy()[-1:]
    levels = [column.removeprefix("forecast-lo-") for column in values.columns if "-lo-" in column]
    for rank, level in enumerate(sorted(levels, key=float, reverse=True)):  # the widest first, and palest
        lower, upper = (np.concatenate((start, values[f"forecast-{side}-{level}"])) for side in ("lo", "hi"))
        shade = _shaded(COLOURS[0], 0.18 + 0.3 * rank / len(levels))
        panel.fill_between(index, lower, upper, color=shade, lw=0, label=f"{level} %")
    panel.plot(index, np.concatenate((start, values["forecast"])), color=COLOURS[0], lw=1.6, label=name)
    panel.axvline(index[0], color=FAINT, lw=0.8, ls=":")
    panel.margins(x=0.01)


def _set_times(panel: Any, index: pd.Index, most: int) -> None:
    """Write dates as short as they can be told apart."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if isinstance(index, pd.DatetimeIndex):
        locator = AutoDateLocator(minticks=3, maxticks=most)
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _shaded(colour: str, share: float) -> tuple[float, ...]:
    """Mix a colour with white, so that overlapping bands and the legend look the same."""
    from matplotlib.colors import to_rgb

    return tuple(share * channel + 1 - share for channel in to_rgb(colour))
