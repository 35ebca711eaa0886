"""Coherent forecasts: totals over groups of series that equal the sums of their parts.

Index letters: b series, a totals, nodes are the series followed by the totals. A (a, b) holds 1 if a series
belongs to a total.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from attangent._core.errors import AttangentError
from attangent.forecast.data.panel import Array, Panel
from attangent.forecast.data.series import SeriesSet
from attangent.forecast.data.tables import as_frame, constant_columns, listed
from attangent.forecast.models.smoothing import fitted_values

Reconcile = Literal["mint", "bottom-up"]
TOTAL = "total"
MOST_PAIRED = 300
"""Number of nodes whose correlations choose the shrinkage."""


@dataclass(frozen=True)
class Hierarchy:
    """Totals over groups of series.

    Attributes:
        paths: Names of the groups of each id from the top, without `TOTAL`.
    """

    paths: dict[Any, tuple[str, ...]]

    @classmethod
    def read(cls, source: Any, levels: Sequence[str], series: SeriesSet) -> "Hierarchy":
        """Read the groups of every series: columns of the table that are constant within a series."""
        id_name = series.columns.id
        if id_name is None:
            raise AttangentError("a hierarchy needs a long table with a column of ids; name it (--id)")
        frame = as_frame(source, [id_name] if isinstance(series.ids[0], str) else [])
        for name in levels:
            if name not in frame.columns:
                raise AttangentError(f"there is no column {name!r}, there are {listed(frame.columns)}")
        upper = [name for name in levels if name != id_name]
        groups = constant_columns(frame, id_name, upper)
        return cls({key: tuple(map(str, names)) for key, *names in groups.itertuples(name=None)})

    def totals(self, ids: Sequence[Any]) -> dict[str, list[int]]:
        """Return the numbers of the series of each total, from the top; a total of one series is left out."""
        members: dict[str, list[int]] = {}
        depth = max(len(path) for path in self.paths.values())
        for level in range(depth + 1):
            for number, key in enumerate(ids):
                name = "/".join((TOTAL, *self.paths[key][:level]))
                members.setdefault(name, []).append(number)
        members = {name: parts for name, parts in members.items() if len(parts) > 1}
        clash = [name for name in members if name in set(map(str, ids))]
        if clash:
            raise AttangentError(f"a series has the id {clash[0]!r}, which names a total; rename it")
        return members

    def extended(self, series: SeriesSet) -> SeriesSet:
        """Append the totals to the series; a series counts as zero before its first value."""
        if len(set(series.last)) > 1:
            first, last = min(series.last), max(series.last)
            raise AttangentError(
                f"series of a hierarchy must end together, but some end at {first} and others at {last}; "
                "cut them to one end, or fill missing rows with zeros (gaps='zero', --gaps zero)"
            )
        totals = self.totals(series.ids)
        sums = [_sum([series.series[k] for k in parts]) for parts in totals.values()]
        category = series.category
        if category is not None:
            category = np.concatenate((category, np.full(len(sums), category.max() + 1)))
        return replace(
            series,
            ids=[*series.ids, *totals],
            series=[*series.series, *sums],
            last=[*series.last, *series.last[:1] * len(sums)],
            category=category,
        )

    def membership(self, ids: Sequence[Any]) -> Array:
        """Return A (a, b) for the series among the nodes `ids`, which come first."""
        bottom = [key for key in ids if key in self.paths]
        matrix = np.zeros((len(ids) - len(bottom), len(bottom)))
        for row, parts in zip(matrix, self.totals(bottom).values(), strict=True):
            row[parts] = 1.0
        return matrix

    def reconciled(self, series: SeriesSet, forecasts: Array, period: int, method: Reconcile) -> Array:
        """Return coherent forecasts (nodes, H) of `extended` series from those of every node by itself."""
        matrix = self.membership(series.ids)
        count = matrix.shape[1]
        parts = forecasts[:count]
        if method == "mint":
            parts = mint(forecasts, matrix, one_step_errors(series, period))[:count]
            parts = series.non_negative(parts)
        return np.concatenate((parts, matrix @ parts))


def _sum(series: Sequence[Array]) -> Array:
    total = np.zeros(max(len(values) for values in series))
    for values in series:
        total[len(total) - len(values) :] += values
    return total


def one_step_errors(series: SeriesSet, period: int) -> Array:
    """Return errors (nodes, T) of fitted values over the times that all series share."""
    order = np.argsort([-len(values) for values in series.series], kind="stable")
    panel = Panel.of([series.series[k] for k in order], period)
    shared = int(panel.lengths.min())
    errors = np.empty((len(order), shared))
    errors[order] = (panel.values - fitted_values(panel))[:, -shared:]
    return errors


def mint(forecasts: Array, matrix: Array, errors: Array) -> Array:
    """y - W C'(C W C')^-1 C y with C = [-A I]: the least change, weighted by W, that makes nodes coherent.

    W = k D + (1 - k) E E' / T is the covariance of the errors E (nodes, T), shrunk towards its diagonal D
    (Wickramasuriya, Athanasopoulos and Hyndman's MinT). It is never formed: the solve has the size of the
    totals.
    """
    times = errors.shape[1]
    spread = np.square(errors).mean(axis=1)
    spread = np.maximum(spread, 1e-12 * max(spread.max(), 1e-300))
    shrink = shrinkage(errors / np.sqrt(spread)[:, None])
    # Rows of C times a matrix over nodes: a total less the sum of its parts.
    count = matrix.shape[1]
    constraint = np.hstack((-matrix, np.eye(len(matrix))))
    gaps = forecasts[count:] - matrix @ forecasts[:count]
    apart = constraint @ errors
    inner = shrink * (constraint * spread) @ constraint.T + (1 - shrink) * apart @ apart.T / times
    scale = max(float(np.trace(inner)) / max(len(inner), 1), 1e-300)
    pull = constraint.T @ np.linalg.solve(inner + 1e-12 * scale * np.eye(len(inner)), gaps)
    change = shrink * spread[:, None] * pull + (1 - shrink) * errors @ (errors.T @ pull) / times
    return forecasts - change


def shrinkage(standard: Array) -> float:
    """sum var(r_ij) / sum r_ij^2 over pairs of nodes, r their correlations (Schäfer and Strimmer).

    `standard` (nodes, T) are errors of unit mean square; some of many nodes are taken.
    """
    rows = np.unique(np.linspace(0, len(standard) - 1, min(MOST_PAIRED, len(standard))).astype(int))
    z = standard[rows]
    times = z.shape[1]
    if times < 3:
        return 1.0
    r = z @ z.T / times
    variance = (np.square(z) @ np.square(z).T / times - np.square(r)) * times / (times - 1) ** 2
    off = ~np.eye(len(r), dtype=bool)
    total = float(np.square(r[off]).sum())
    return float(np.clip(variance[off].sum() / total, 0.0, 1.0)) if total > 0 else 1.0
