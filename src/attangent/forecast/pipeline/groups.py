"""Sets of any size: groups of series run in bounded memory and in parallel, and finished ones are kept.

The period of a set is chosen here too, if the calendar offers several: a day or a week, a year or none.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, remove_leftovers, writing
from attangent._core.parallel import ATTEMPTS, in_processes
from attangent._core.progress import Bars
from attangent.forecast.data.calendar import TimeStep, period_of
from attangent.forecast.data.covariates import Covariates
from attangent.forecast.data.panel import Array, Integers, Panel
from attangent.forecast.data.series import SeriesSet
from attangent.forecast.pipeline.backtest import Backtest
from attangent.forecast.pipeline.combination import (
    PanelForecast,
    PanelRequest,
    forecast_from,
    forecast_panel,
)
from attangent.forecast.pipeline.effects import forecast_with_covariates
from attangent.forecast.pipeline.short_series import SHORT

ARRAYS = ("forecasts", "quantiles", "added")
"""Arrays of a `PanelForecast`."""
MOST_SERIES = 2000
"""Number of series per group; fewer if they are long."""
MOST_VALUES = 1_000_000
"""About the number of values per group."""
SAMPLE = 60
"""Number of series on which periods are compared."""
LATEST = 2_000
"""Number of latest values on which periods are compared."""
ENDS = 2
"""Number of earlier ends at which they are compared, a horizon apart."""
CLEARLY = 0.98
"""Another period than the calendar's first is taken below this fraction of its error."""


@dataclass(frozen=True)
class SeriesGroup:
    """The request for one group of series, with their categories and covariates."""

    request: PanelRequest
    series: list[Array]
    category: Integers | None = None
    past: list[Array] | None = None
    future: list[Array] | None = None

    def forecast(self) -> PanelForecast:
        """Forecast the group."""
        panel = Panel.of(self.series, self.request.period, self.category, self.request.longer)
        if self.past is None or self.future is None:
            return forecast_panel(panel, self.request)
        return forecast_with_covariates(panel, self.past, self.future, self.request)

    def digest(self) -> str:
        """Return a digest of the data and the request, used as the name of the cache file."""
        digest = hashlib.sha256(repr(self.request).encode())
        categories = [] if self.category is None else [self.category]
        for values in (*self.series, *(self.past or ()), *(self.future or ()), *categories):
            digest.update(len(values).to_bytes(8, "little") + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Workers:
    """Where groups are forecast.

    Attributes:
        jobs: Number of processes on this machine.
        dask: Address of a Dask cluster to use instead.
        folder: Folder that keeps finished groups, so that an interrupted run resumes.
        bars: Progress bars.
    """

    jobs: int = 1
    dask: str | None = None
    folder: Path | None = None
    bars: Bars | None = None


def in_groups(series: Sequence[Array]) -> list[Integers]:
    """Return the numbers of the series of each group, longest first; independent of the workers.

    Short series are dealt out over the groups, because they learn from the longer ones.
    """
    lengths = np.array([len(values) for values in series])
    order = np.argsort(-lengths, kind="stable")
    long = order[lengths[order] >= SHORT]
    short = order[len(long) :]
    groups = []
    start = 0
    while start < len(long):
        size = int(np.clip(MOST_VALUES // lengths[long[start]], 1, MOST_SERIES))
        groups.append(long[start : start + size])
        start += size
    if not groups:
        return [short[k : k + MOST_SERIES] for k in range(0, len(short), MOST_SERIES)]
    return [np.concatenate((group, short[k :: len(groups)])) for k, group in enumerate(groups)]


def forecast_groups(
    series: SeriesSet, request: PanelRequest, workers: Workers, known: Covariates | None = None
) -> list[tuple[Integers, PanelForecast]]:
    """Forecast all series; groups that the folder already holds are read instead.

    Returns:
        The numbers of the series of each group, and their forecast.
    """
    numbers = in_groups(series.series)
    groups = [
        SeriesGroup(
            request,
            [series.series[k] for k in chosen],
            None if series.category is None else series.category[chosen],
            None if known is None else [known.past[k] for k in chosen],
            None if known is None else [known.future[k] for k in chosen],
        )
        for chosen in numbers
    ]
    paths: list[Path] = []
    if workers.folder is not None and len(groups) > 1:
        real_folder(workers.folder)
        remove_leftovers(workers.folder)
        paths = [workers.folder / f"{group.digest()}.npz" for group in groups]
    results = {k: result for k, path in enumerate(paths) if (result := _load(path)) is not None}
    waiting = [k for k in range(len(groups)) if k not in results]
    bars = workers.bars or Bars(True)
    note = f"{len(series.ids)} series"
    bars.show("forecasting", len(results), len(groups), note=note)
    queue = [groups[k] for k in waiting]
    if workers.dask is not None:
        from attangent._core.parallel import on_cluster

        numbered = on_cluster(SeriesGroup.forecast, queue, workers.dask, _died)
    elif workers.jobs > 1 and len(queue) > 1:
        numbered = in_processes(SeriesGroup.forecast, queue, workers.jobs, _died)
    else:
        numbered = enumerate(group.forecast() for group in queue)
    for number, result in numbered:
        k = waiting[number]
        results[k] = result
        if paths:
            _save(paths[k], result)
        bars.show("forecasting", len(results), len(groups), note=note)
    return [(chosen, results[k]) for k, chosen in enumerate(numbers)]


def _died(group: SeriesGroup) -> NoReturn:
    raise AttangentError(
        f"the processes that forecast a group of {len(group.series)} series died {ATTEMPTS} times, possibly "
        "for lack of memory; use fewer (--jobs), or split the series into several files"
    )


def _save(path: Path, result: PanelForecast) -> None:
    about = {name: getattr(result, name) for name in ("model", "why", "errors", "expected", "models")}
    with writing(path) as temporary, temporary.open("wb") as file:
        arrays = {name: getattr(result, name) for name in ARRAYS}
        np.savez(file, about=np.array(json.dumps(about)), **arrays)


def _load(path: Path) -> PanelForecast | None:
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as saved:
            about: dict[str, Any] = json.loads(str(saved["about"]))
            # A file of an earlier version lacks an array and is computed again.
            return PanelForecast(**{name: saved[name] for name in ARRAYS}, **about)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        path.unlink(missing_ok=True)
        return None


def clear(folder: Path) -> None:
    """Remove the finished groups, and the folder if it is empty then."""
    for path in folder.glob("*.npz"):
        path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def mean_errors(results: Sequence[tuple[Integers, PanelForecast]]) -> dict[str, float]:
    """Average the errors of each model over groups, weighted by their series; NaN if never scored."""
    sizes = np.array([len(chosen) for chosen, _ in results], dtype=np.float64)
    means = {}
    for name in dict.fromkeys(name for _, result in results for name in result.errors):
        errors = np.array([result.errors.get(name, np.nan) for _, result in results])
        known = np.isfinite(errors)
        means[name] = float(np.average(errors[known], weights=sizes[known])) if known.any() else float("nan")
    return means


def choose_period(series: Sequence[Array], step: TimeStep, horizon: int) -> int:
    """Return the period whose forecasts of held-out values were best.

    Series sampled several times per day may repeat by the day or by the week, weekly series by the year or
    not at all. Other calendars have one period, and so have series too short to compare.
    """
    first = period_of(series, step)
    periods = [first, *step.periods()[1:]]
    needed = 2 * max(periods) + (ENDS + 1) * horizon
    long = [values[-LATEST:] for values in series if len(values) >= needed]
    if len(periods) == 1 or len(long) < min(len(series), SAMPLE) / 2:
        return first if len(periods) == 1 else _fitting(series, periods, horizon)
    chosen = np.unique(np.linspace(0, len(long) - 1, min(SAMPLE, len(long))).astype(int))
    sample = sorted((long[k] for k in chosen), key=len, reverse=True)
    errors = {period: _error(sample, period, step.longer_period(period), horizon) for period in periods}
    best = min(errors, key=lambda period: errors[period])
    return best if errors[best] < CLEARLY * errors[first] else first


def _fitting(series: Sequence[Array], periods: Sequence[int], horizon: int) -> int:
    """Return the first period of which most series hold two; the last if there is none."""
    median = np.median([len(values) for values in series])
    return next((period for period in periods if median >= 2 * period), periods[-1])


def _error(sample: Sequence[Array], period: int, longer: int, horizon: int) -> float:
    """Return the mean absolute error of forecasts from earlier ends, in units of single steps."""
    errors = []
    backtest = Backtest.of(Panel.of(sample, period, longer=longer), horizon)
    for back in (horizon * (k + 1) for k in range(ENDS)):
        panel = backtest.panel.before(back)
        actual = np.stack([values[len(values) - back :][:horizon] for values in sample])
        forecasts = forecast_from(backtest, back, PanelRequest(horizon, period)).forecasts
        scale = Panel(panel.values, panel.lengths, 1).scale
        errors.append(float((np.abs(forecasts - actual).mean(axis=1) / scale).mean()))
    return float(np.mean(errors))
