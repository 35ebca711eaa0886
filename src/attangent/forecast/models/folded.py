"""Levels of whole seasons with a fixed shape: the level follows a ridge regression per series.

Index letters: n series, c seasons, j steps within a season, p features.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attangent.forecast.data.panel import Array, Integers, Panel
from attangent.forecast.models.base import PanelModel
from attangent.forecast.models.smoothing import seasonal_indices

FEWEST_SEASONS = 6
"""If the median series has fewer seasons, levels are single values."""
FEWEST_VALUES = 8
MOST_SEASONS = 500
LATEST = (8, 26)
"""The shape is that of a quarter of all seasons, between these numbers."""
SHORT_CYCLE = 24
"""Levels that repeat after more steps than this follow waves, others have an index per step."""
WAVES = 2
ENOUGH_CYCLES = 1.3
"""Waves are fitted to this many cycles or more."""
LAGGED = 20
"""The level one cycle before is a feature if there are this many levels more than one cycle."""
PENALTIES = tuple(float(penalty) for penalty in 10.0 ** np.arange(-4, 4.1, 1.0))


class FoldedSeasons(PanelModel):
    """y_{c, j} = l_c + s_j, or l_c s_j in "-log": l_c the mean of season c, s_j the median of its steps.

    Levels, or their logarithms, follow a ridge regression on a trend, the last level and the level one longer
    cycle before, less a smooth pattern over that cycle: a year of weeks or days. The mean of a season lags
    behind a series with a trend, so without a longer season every value is a level, less its seasonal index,
    in further members.
    """

    families = ("folded",)

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return "folded" and "folded-log", and with levels of one value "folded-values" and its "-log".

        Series of fewer than eight values get Theta's forecast.
        """
        # A level is the mean of a season, or a single value if there are few seasons.
        enough = np.median(panel.lengths) >= FEWEST_SEASONS * panel.period
        members = _members(panel, panel.period if enough else 1, horizon, earlier)
        if panel.period == 1 or panel.longer:
            return members
        values = _members(panel, 1, horizon, earlier)
        return members | {name.replace("folded", "folded-values"): values[name] for name in values}


def _members(panel: Panel, size: int, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
    """Return "folded" and "folded-log" with levels that are means of `size` steps."""
    count = int((panel.lengths >= max(FEWEST_VALUES, 4 * size)).sum())
    plain = earlier["theta"].copy()
    logs = earlier["theta-log"].copy()
    if count:
        known = panel.rows(0, count)
        plain[:count] = _forecasts(known, size, horizon, logarithms=False)
        # Logarithms need a series that is never negative, with a positive level in every season.
        levels = _in_seasons(known, size).mean(axis=2)
        usable = ((np.nanmin(known.values, axis=1) >= 0) & (np.nanmin(levels, axis=1) > 0))[:, None]
        ones = np.where(np.isfinite(known.values), 1.0, np.nan)
        positive = replace(known, values=np.where(usable, known.values, ones))
        values = _forecasts(positive, size, horizon, logarithms=True)
        logs[:count] = np.where(usable, values, plain[:count])
    return {"folded": plain, "folded-log": logs}


def _in_seasons(panel: Panel, size: int) -> Array:
    """(N, C, P): whole seasons up to the end, NaN before the start of a series."""
    count = min(panel.values.shape[1] // size, MOST_SEASONS)
    return panel.values[:, panel.values.shape[1] - count * size :].reshape(len(panel), count, size)


def _forecasts(panel: Panel, size: int, horizon: int, logarithms: bool) -> Array:
    seasons = _in_seasons(panel, size)
    levels = seasons.mean(axis=2)
    latest = int(np.clip(seasons.shape[1] // 4, *LATEST))
    relative = seasons / levels[:, :, None] if logarithms else seasons - levels[:, :, None]
    # The median of many seasons: a mean would follow holidays and outliers of the latest ones.
    shape = np.nanmedian(relative[:, -latest:], axis=1)  # (N, P)
    # Levels of single values cannot follow two seasons at once: the shorter matters more.
    season = panel.period if size == 1 < panel.period else panel.longer or panel.period
    steps = -(-horizon // size)
    ahead = level_forecasts(np.log(levels) if logarithms else levels, season // size, steps)[:, :, None]
    values = np.exp(ahead) * shape[:, None, :] if logarithms else ahead + shape[:, None, :]
    return values.reshape(len(panel), -1)[:, :horizon]


def level_forecasts(levels: Array, cycle: int, steps: int) -> Array:
    """Forecast (N, steps) from levels (N, C), at most one range of the past above or below it."""
    count = levels.shape[1]
    past = np.zeros(levels.shape)
    future = np.zeros((len(levels), steps))
    lag = 0
    if 1 < cycle <= SHORT_CYCLE:
        lengths = np.isfinite(levels).sum(axis=1)
        indices = seasonal_indices(Panel(levels, lengths, cycle))
        past = indices[:, np.arange(count) % cycle]
        future = indices[:, np.arange(count, count + steps) % cycle]
    elif cycle > SHORT_CYCLE and count >= ENOUGH_CYCLES * cycle:
        past, future = cycle_waves(levels, cycle, steps)
        lag = cycle if count >= cycle + LAGGED else 0
    ahead = ridge_paths(levels - past, lag, steps) + future
    low = np.nanmin(levels, axis=1, keepdims=True)
    high = np.nanmax(levels, axis=1, keepdims=True)
    return np.clip(ahead, 2 * low - high, 2 * high - low)


def cycle_waves(levels: Array, cycle: int, steps: int) -> tuple[Array, Array]:
    """Return a smooth pattern over a cycle, in the past (N, C) and in the future (N, steps).

    It is a sum of waves, fitted with a line. The coefficients of a wave shrink by James-Stein factors, first
    towards zero and then towards the median of all series, in units of the usual step between levels.
    """
    count = levels.shape[1]
    time = np.arange(1 - count, steps + 1.0)
    angles = 2 * np.pi * time[:, None] * np.arange(1, WAVES + 1) / cycle
    waves = np.stack((np.cos(angles), np.sin(angles)), axis=2)  # (T, K, 2)
    x = np.column_stack((np.ones(count), time[:count] / count, waves[:count].reshape(count, -1)))
    known = np.isfinite(levels)
    number = known.sum(axis=1)
    base = levels[:, -1:]
    y = np.where(known, levels - base, 0.0)
    width = x.shape[1]
    gram = (known @ (x[:, :, None] * x[:, None, :]).reshape(count, -1)).reshape(-1, width, width)
    weights = np.linalg.solve(gram + 1e-8 * count * np.eye(width), (y @ x)[:, :, None])[:, :, 0]
    rest = np.where(known, y - weights @ x.T, 0.0)
    squares = np.maximum(np.square(rest).sum(axis=1), 1e-300)
    # Neighbouring residuals agree, so the coefficients are less certain than their number says.
    carried = np.clip((rest[:, 1:] * rest[:, :-1]).sum(axis=1) / squares, 0.0, 0.9)
    noise = 2 * squares / np.maximum(number - width, 1) * (1 + carried) / (1 - carried)
    unit = _usual_step(levels)[:, None]
    enough = number >= ENOUGH_CYCLES * cycle
    pattern = np.zeros((len(levels), len(time)))
    for k in range(WAVES if enough.any() else 0):
        raw = weights[:, 2 + 2 * k : 4 + 2 * k]
        middle = np.median((_shrunk(raw, number, noise) / unit)[enough], axis=0) * unit
        coefficients = middle + _shrunk(raw - middle, number, noise)
        pattern += np.where(enough[:, None], coefficients, 0.0) @ waves[:, k].T
    return pattern[:, :count], pattern[:, count:]


def _shrunk(coefficients: Array, number: Integers, noise: Array) -> Array:
    size = np.maximum(0.5 * number * np.square(coefficients).sum(axis=1), 1e-300)
    return np.maximum(1 - noise / size, 0.0)[:, None] * coefficients


def _usual_step(levels: Array) -> Array:
    """(N,): root mean square step between levels; 1 for constant series."""
    steps = np.diff(levels, axis=1)
    squares = np.nansum(np.square(steps), axis=1) / np.maximum(np.isfinite(steps).sum(axis=1), 1)
    size = np.nanmax(np.abs(levels), axis=1)
    return np.where(np.sqrt(squares) > 1e-9 * size, np.sqrt(squares), 1.0)


def ridge_paths(levels: Array, lag: int, steps: int) -> Array:
    """l_t - l_{t-1} = b_0 + b_1 t / n - b_2 l_{t-1} + b_3 l_{t-lag}, run forward from the last level.

    Levels are distances from the last one in units of the usual step, so a large penalty leaves a random
    walk. The weights are averaged over penalties by exp(-e / min e), e the mean squared leave-one-out error.
    The trend is damped by the autocorrelation of the steps. lag = 0 leaves out the last feature.
    """
    last = levels[:, -1:]
    unit = _usual_step(levels)[:, None]
    z = (levels - last) / unit
    weights = _soft_ridge(*_features(z, lag))
    count = z.shape[1]
    number = np.isfinite(z).sum(axis=1)
    carried = _carried(np.diff(z, axis=1))
    path = np.concatenate((np.nan_to_num(z), np.zeros((len(z), steps))), axis=1)
    for t in range(count, count + steps):
        reach = carried * (1 - carried ** (t - count + 1)) / (1 - carried)
        value = weights[:, 0] + weights[:, 1] * (number - 1 + reach) / number
        value += (1 - weights[:, 2]) * path[:, t - 1]
        path[:, t] = value + weights[:, 3] * path[:, t - lag] if lag else value
    return last + unit * path[:, count:]


def _features(z: Array, lag: int) -> tuple[Array, Array]:
    """Return features (N, T, p) and targets (N, T) of the steps with a known past; zero for the others."""
    start = max(lag, 1)
    count = z.shape[1]
    number = np.isfinite(z).sum(axis=1)[:, None]
    trend = (np.arange(count) - count + number) / number
    columns = [np.ones(z.shape)[:, start:], trend[:, start:], -z[:, start - 1 : -1]]
    if lag:
        columns.append(z[:, : count - lag])
    x = np.stack(columns, axis=2)
    y = np.diff(z, axis=1)[:, start - 1 :]
    known = np.isfinite(x).all(axis=2) & np.isfinite(y)
    return np.where(known[:, :, None], x, 0.0), np.where(known, y, 0.0)


def _soft_ridge(x: Array, y: Array) -> Array:
    """(N, p): weights averaged over PENALTIES, from one eigendecomposition per series."""
    values, vectors = np.linalg.eigh(x.transpose(0, 2, 1) @ x)
    rotated = x @ vectors
    target = (rotated.transpose(0, 2, 1) @ y[:, :, None])[:, :, 0]
    leverage = np.square(rotated)
    errors = []
    solutions = []
    for penalty in PENALTIES:
        inverse = 1 / (np.maximum(values, 0.0) + penalty)
        solution = inverse * target
        rest = y - (rotated @ solution[:, :, None])[:, :, 0]
        left_out = rest / np.maximum(1 - (leverage @ inverse[:, :, None])[:, :, 0], 1e-6)
        errors.append(np.square(left_out).sum(axis=1))
        solutions.append(solution)
    error = np.stack(errors, axis=1)
    share = np.exp(1 - error / np.maximum(error.min(axis=1, keepdims=True), 1e-300))
    share /= share.sum(axis=1, keepdims=True)
    mean = (share[:, None, :] @ np.stack(solutions, axis=1))[:, 0]
    return (vectors @ mean[:, :, None])[:, :, 0]


def _carried(steps: Array) -> Array:
    """(N,): autocorrelation of neighbouring steps, from 0 to 0.98."""
    known = np.isfinite(steps)
    mean = np.where(known, steps, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    centred = np.where(known, steps - mean[:, None], 0.0)
    total = np.maximum(np.square(centred).sum(axis=1), 1e-300)
    return np.clip((centred[:, 1:] * centred[:, :-1]).sum(axis=1) / total, 0.0, 0.98)
