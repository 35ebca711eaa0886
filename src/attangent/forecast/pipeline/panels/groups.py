"""Sets of any size: series go in groups of bounded memory, to workers, and what is done is kept."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, remove_leftovers, writing
from attangent._core.processes import ATTEMPTS, in_processes
from attangent.forecast.data.covariates import Covariates
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.panels.forecast import PanelForecast, forecast_panel
from attangent.forecast.pipeline.panels.known import forecast_known

Array = NDArray[np.float64]

GROUP = 2000
"""Series that are forecast together; ten times fewer where they are long."""
VALUES = 1_000_000
"""At most about so many values in a group."""


@dataclass(frozen=True)
class Work:
    """What is asked of every group."""

    horizon: int
    period: int
    probabilities: tuple[float, ...]
    model: str

    def run(self, part: "GroupSeries") -> PanelForecast:
        panel = Panel.of(part.series, self.period, part.category)
        if part.past is None or part.future is None:
            return forecast_panel(panel, self.horizon, self.probabilities, self.model)
        return forecast_known(panel, part.past, part.future, self.horizon, self.probabilities, self.model)


@dataclass(frozen=True)
class GroupSeries:
    """The series of a group, their categories and, where there are known columns, their past and future."""

    series: list[Array]
    category: NDArray[np.int64] | None = None
    past: list[Array] | None = None
    future: list[Array] | None = None

    def arrays(self) -> list[NDArray[Any]]:
        """All of it, as it goes into a digest."""
        kinds = [] if self.category is None else [self.category]
        return [*self.series, *(self.past or ()), *(self.future or ()), *kinds]


@dataclass(frozen=True)
class Crew:
    """Who works: `jobs` processes here, or the Dask cluster at an address; `folder` keeps finished groups."""

    jobs: int = 1
    dask: str | None = None
    folder: Path | None = None


def in_groups(series: Sequence[Array]) -> list[NDArray[np.int64]]:
    """Numbers of the series of each group: the longest first, groups the same whoever works on them."""
    order = np.argsort([-len(one) for one in series], kind="stable")
    groups, start = [], 0
    while start < len(order):
        longest = len(series[order[start]])
        size = int(np.clip(VALUES // max(longest, 1), 1, GROUP))
        groups.append(order[start : start + size])
        start += size
    return groups


def run_groups(
    series: Sequence[Array],
    work: Work,
    crew: Crew,
    show: Callable[[int, int], None] = lambda done, total: None,
    known: Covariates | None = None,
    category: NDArray[np.int64] | None = None,
) -> list[tuple[NDArray[np.int64], PanelForecast]]:
    """The forecast of each group; groups that `folder` already holds are read instead."""
    groups = in_groups(series)
    parts = [_part(series, known, category, group) for group in groups]
    paths = _paths(parts, work, crew.folder)
    found: dict[int, PanelForecast] = {}
    for k, path in enumerate(paths):
        kept = _load(path)
        if kept is not None:
            found[k] = kept
    waiting = [k for k in range(len(groups)) if k not in found]
    show(len(found), len(groups))
    for k, result in zip(waiting, _results([parts[k] for k in waiting], work, crew), strict=True):
        found[k] = result
        _save(paths[k], result)
        show(len(found), len(groups))
    return [(group, found[k]) for k, group in enumerate(groups)]


def _part(
    series: Sequence[Array],
    known: Covariates | None,
    category: NDArray[np.int64] | None,
    group: NDArray[np.int64],
) -> GroupSeries:
    own, kinds = [series[k] for k in group], None if category is None else category[group]
    if known is None:
        return GroupSeries(own, kinds)
    return GroupSeries(own, kinds, [known.past[k] for k in group], [known.future[k] for k in group])


def _results(parts: Sequence[GroupSeries], work: Work, crew: Crew) -> Iterator[PanelForecast]:
    if crew.dask is not None:
        from attangent._core.cluster import on_cluster

        return _in_order(on_cluster(work.run, parts, crew.dask, _died), len(parts))
    if crew.jobs > 1 and len(parts) > 1:
        return _in_order(in_processes(work.run, parts, crew.jobs, _died), len(parts))
    return (work.run(part) for part in parts)


def _in_order(numbered: Iterator[tuple[int, PanelForecast]], count: int) -> Iterator[PanelForecast]:
    early: dict[int, PanelForecast] = {}
    for number in range(count):
        while number not in early:
            early.update([next(numbered)])
        yield early.pop(number)


def _died(part: GroupSeries) -> NoReturn:
    raise AttangentError(
        f"the processes that forecast a group of {len(part.series)} series died {ATTEMPTS} times: they may "
        "have run out of memory; use fewer of them (--jobs), or give the series in several files"
    )


def _paths(parts: Sequence[GroupSeries], work: Work, folder: Path | None) -> list[Path | None]:
    if folder is None:
        return [None] * len(parts)
    real_folder(folder)
    remove_leftovers(folder)
    return [folder / f"{_digest(part, work)}.npz" for part in parts]


def _digest(part: GroupSeries, work: Work) -> str:
    """Of the values and of what is asked: another file or another horizon is another name."""
    seen = hashlib.sha256(repr(work).encode())
    for one in part.arrays():
        seen.update(len(one).to_bytes(8, "little") + np.ascontiguousarray(one).tobytes())
    return seen.hexdigest()[:32]


def _save(path: Path | None, found: PanelForecast) -> None:
    if path is None:
        return
    names = np.array(list(found.errors), dtype=np.str_)
    with writing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            forecasts=found.forecasts,
            quantiles=found.quantiles,
            said=np.array([found.model, found.why], dtype=np.str_),
            names=names,
            errors=np.array(list(found.errors.values())),
            origins=np.array(found.origins),
        )


def _load(path: Path | None) -> PanelForecast | None:
    if path is None or not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            model, why = (str(text) for text in kept["said"])
            errors = dict(zip((str(n) for n in kept["names"]), kept["errors"].tolist(), strict=True))
            return PanelForecast(
                model, why, kept["forecasts"], kept["quantiles"], errors, int(kept["origins"])
            )
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        path.unlink(missing_ok=True)
        return None


def clear(folder: Path) -> None:
    """Remove the kept groups, and the folder where nothing else is in it."""
    for path in folder.glob("*.npz"):
        path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def combined_errors(found: Sequence[tuple[NDArray[np.int64], Any]]) -> dict[str, float]:
    """Errors of each model over all groups, weighted by their series."""
    names = found[0][1].errors
    sizes = np.array([len(group) for group, _ in found], dtype=np.float64)
    table = np.array([[one.errors[name] for name in names] for _, one in found])
    known = np.isfinite(table)
    weights = np.where(known, sizes[:, None], 0.0)
    total = (np.where(known, table, 0.0) * weights).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    return {
        name: float(v) if k else float("nan")
        for name, v, k in zip(names, total, np.atleast_1d(known.any(axis=0)), strict=True)
    }
