"""Exponential smoothing and Theta: all settings of a grid run over all series in one pass over time."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product

import numpy as np

from attangent.forecast.data.panel import Array, Integers, Logarithms, Panel
from attangent.forecast.models.base import PanelModel

LEVEL = (0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
SEASON = (0.0, 0.05, 0.15, 0.4)
DAMPED = ((0.03, 0.9), (0.1, 0.9), (0.3, 0.9), (0.3, 0.8))
DRIFTS = (0.5, 0.75, 1.0)
"""Fractions of the overall slope at which Theta continues: its usual half, and more."""
PERSISTENT = ((0.03, 0.98), (0.1, 0.98), (0.3, 0.98))
LONGEST = 400
"""Number of latest values that smoothing reads, or twelve seasons if that is more."""
PIECE = 256
"""Number of series per pass: their states fit into the processor's cache."""
MANY = 512
SAMPLE = 64
MASS = 0.95
"""Panels of MANY series run only the settings that have 95 % of the weight on a SAMPLE of them."""
TEMPER = 0.5
"""Errors several steps ahead overlap, so they count for half as much as independent ones."""


@dataclass(frozen=True)
class Grid:
    """G settings: rates alpha of the level, beta of the trend, gamma of the season, damping phi.

    `drift` > 0 marks Theta's settings: their trend stays at this fraction of the slope of a line through the
    series. phi = 0 means no trend.
    """

    alpha: Array
    beta: Array
    phi: Array
    gamma: Array
    drift: Array


def settings(period: int, persistent_trends: bool) -> Grid:
    """Return all settings; persistent trends are optional, because they would explode on logarithms."""
    trends = [(0.0, 0.0, 0.0), *((0.0, 1.0, f) for f in DRIFTS), *((b, p, 0.0) for b, p in DAMPED)]
    if persistent_trends:
        trends += [(b, p, 0.0) for b, p in PERSISTENT]
    rates = SEASON if period > 1 else (0.0,)
    rows = [(a, a * b, p, g * (1 - a), d) for a, (b, p, d), g in product(LEVEL, trends, rates)]
    return Grid(*(np.array(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True)
class Smoothed:
    """Mean squared errors (N, G) and their number (N,) by steps ahead, and forecasts (N, G, H)."""

    errors: dict[int, Array]
    counts: dict[int, Array]
    forecasts: Array


class Smoothing(PanelModel):
    """Average exponential smoothing over a grid of settings, weighted by how well each fitted the series.

    "smoothing" weighs all settings by their squared errors one to a season's steps ahead. "theta" weighs
    those with a drift by their errors one step ahead (errors further ahead did no better on training data).
    Both run on the series and ("-log") on the logarithms of positive ones.
    """

    families = ("smoothing", "theta")

    def forecast(self, panel: Panel, horizon: int, earlier: Mapping[str, Array]) -> dict[str, Array]:
        """Return "smoothing", "theta", "smoothing-log" and "theta-log"."""
        forecasts = _averages(panel, horizon, persistent_trends=True)
        plain = dict(forecasts)
        logs = Logarithms.of(panel)
        on_logs = _averages(logs.panel, horizon, persistent_trends=False) if logs.usable.any() else plain
        for name, values in plain.items():
            forecasts[f"{name}-log"] = logs.back(on_logs[name], values)
        return forecasts


def _averages(panel: Panel, horizon: int, persistent_trends: bool) -> dict[str, Array]:
    grid = settings(panel.period, persistent_trends)
    ahead = steps_ahead(panel.period, horizon)
    if len(panel) >= MANY:
        grid = _promising(panel, horizon, grid, ahead)
    smoothed = smooth(panel, horizon, grid, ahead)
    weights, of_drifts = _weights(panel, smoothed, grid, ahead)
    return {
        "smoothing": np.einsum("ng,ngh->nh", weights, smoothed.forecasts),
        "theta": np.einsum("ng,ngh->nh", of_drifts, smoothed.forecasts[:, grid.drift > 0]),
    }


def _weights(panel: Panel, smoothed: Smoothed, grid: Grid, ahead: Sequence[int]) -> tuple[Array, Array]:
    """Return the weights (N, G) of all settings, and those (N, G') of the settings with a drift."""
    # A series that a setting fits exactly would have infinite evidence for it; the floor keeps it finite.
    floor = np.square(1e-6 * np.nanmax(np.abs(panel.values), axis=1))[:, None] + 1e-300
    # log-likelihood -n/2 log(mean squared error) of every setting, (N, G) per step ahead
    evidence = {h: -0.5 * smoothed.counts[h][:, None] * np.log(smoothed.errors[h] + floor) for h in ahead}
    weights = posterior(TEMPER * np.mean([evidence[h] for h in ahead], axis=0))
    return weights, posterior(evidence[1][:, grid.drift > 0])


def _promising(panel: Panel, horizon: int, grid: Grid, ahead: Sequence[int]) -> Grid:
    """Return the settings that a sample of the series gives nearly all weight to."""
    sample = panel.sample(SAMPLE)
    weights, of_drifts = _weights(sample, smooth(sample, horizon, grid, ahead), grid, ahead)
    drifts = np.flatnonzero(grid.drift > 0)
    used = np.union1d(_heaviest(weights.mean(axis=0)), drifts[_heaviest(of_drifts.mean(axis=0))])
    return Grid(*(getattr(grid, item.name)[used] for item in fields(grid)))


def _heaviest(weights: Array) -> Integers:
    """Return the indices of the largest weights, up to a total of MASS."""
    order = np.argsort(-weights, kind="stable")
    return order[np.cumsum(weights[order]) - weights[order] < MASS]


def steps_ahead(period: int, horizon: int) -> tuple[int, ...]:
    """Return the steps at which smoothing is judged: from 1 to about a season, none beyond the horizon."""
    steps = (1, 2, 3) if period == 1 else (1, max(2, period // 4), max(3, period // 2), period)
    return tuple(sorted({1, *(min(step, horizon) for step in steps)}))


def posterior(evidence: Array, rounds: int = 20, floor: float = 0.1) -> Array:
    """Weights (N, G) ~ prior_g exp(evidence_ng), with a prior that the series of the panel agree on."""
    equal = np.full(evidence.shape[1], 1 / evidence.shape[1])
    prior = equal
    weights = equal
    for _ in range(rounds):
        weights = np.log(prior) + evidence
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        # Empirical Bayes: the mean weights become the prior, so that short series borrow from the others.
        # The floor retains settings that no other series likes for the one that does.
        prior = (1 - floor) * weights.mean(axis=0) + floor * equal
    return weights


def smooth(panel: Panel, horizon: int, grid: Grid, ahead: Sequence[int] = (1,)) -> Smoothed:
    """l_t = l' + alpha e, b_t = phi b + beta e, s_t = s + gamma e with l' = l + phi b, e = y_t - l' - s.

    A forecast h steps ahead is l + (phi + ... + phi^h) b + s. Errors are measured at the steps `ahead`, the
    first of which is 1; none is longer than the season if there is one.
    """
    longest = max(LONGEST, 12 * panel.period)
    panel = panel if panel.values.shape[1] <= longest else panel.latest(longest)
    pieces = [
        _pass(panel.rows(start, start + PIECE), horizon, grid, ahead) for start in range(0, len(panel), PIECE)
    ]
    return Smoothed(
        {h: np.concatenate([piece.errors[h] for piece in pieces]) for h in ahead},
        {h: np.concatenate([piece.counts[h] for piece in pieces]) for h in ahead},
        np.concatenate([piece.forecasts for piece in pieces]),
    )


def fitted_values(panel: Panel) -> Array:
    """(N, T): one-step forecasts of "smoothing" over the past, NaN before the start of a series."""
    grid = settings(panel.period, persistent_trends=True)
    ahead = steps_ahead(panel.period, panel.period)
    if len(panel) >= MANY:
        grid = _promising(panel, 1, grid, ahead)
    weights, _ = _weights(panel, smooth(panel, 1, grid, ahead), grid, ahead)
    fitted = np.empty(panel.values.shape)
    for start in range(0, len(panel), PIECE):
        piece = panel.rows(start, start + PIECE)
        target = fitted[start : start + PIECE]
        target[:] = np.nan
        _pass(piece, 1, grid, (1,), (weights[start : start + PIECE], target[:, -piece.values.shape[1] :]))
    return fitted


def _pass(
    panel: Panel,
    horizon: int,
    grid: Grid,
    ahead: Sequence[int],
    recorded: tuple[Array, Array] | None = None,
) -> Smoothed:
    """Run over time; `recorded` holds weights (N, G) and an array (N, T) for mean one-step forecasts."""
    values = panel.values
    m = panel.period
    times = values.shape[1]
    indices = seasonal_indices(panel)
    level, trend = _initial(panel, values - indices[:, np.arange(times) % m], grid)
    season = np.repeat(indices.T[:, :, None], len(grid.alpha), axis=2)  # (m, N, G)
    reach = np.cumsum(grid.phi ** np.arange(1, max(horizon, *ahead) + 1)[:, None], axis=0)  # (H, G)
    squares = {h: np.zeros_like(level) for h in ahead}
    past: deque[tuple[int, Array, Array]] = deque(maxlen=max(ahead))
    starts = times - panel.lengths
    for t in range(times):
        # Rows are sorted by length, so the series that have begun by t are the first n rows: slices of the
        # states are views, and no mask is needed.
        n = int(np.searchsorted(starts, t, side="right"))
        past.appendleft((n, level.copy(), trend.copy()))
        slot = season[t % m]
        target = values[:, t, None]
        for h in ahead[1:]:
            if len(past) >= h:
                k, old_level, old_trend = past[h - 1]
                far = target[:k] - old_level[:k] - old_trend[:k] * reach[h - 1] - slot[:k]
                squares[h][:k] += np.square(far)
        carried = level[:n] + grid.phi * trend[:n]
        error = target[:n] - carried - slot[:n]
        if recorded is not None:
            recorded[1][:n, t] = values[:n, t] - (recorded[0][:n] * error).sum(axis=1)
        squares[1][:n] += np.square(error)
        level[:n] = carried + grid.alpha * error
        trend[:n] = grid.phi * trend[:n] + grid.beta * error
        slot[:n] += grid.gamma * error
    forecasts = level[:, :, None] + trend[:, :, None] * reach[:horizon].T
    forecasts += season[(times + np.arange(horizon)) % m].transpose(1, 2, 0)
    counts = {h: np.maximum(panel.lengths - h + 1, 1).astype(np.float64) for h in ahead}
    return Smoothed({h: squares[h] / counts[h][:, None] for h in ahead}, counts, forecasts)


def _initial(panel: Panel, adjusted: Array, grid: Grid) -> tuple[Array, Array]:
    """Return level and trend (N, G) before the first value.

    Settings with a trend start on a line through the first ten values, others at the mean of the first five.
    Theta's drift is a fraction of the slope of a line through all values.
    """
    early, slope, _ = _line(panel, adjusted, 10)
    _, overall, _ = _line(panel, adjusted, adjusted.shape[1])
    _, _, mean = _line(panel, adjusted, 5)
    trending = (grid.phi > 0) & (grid.drift == 0)
    levels = np.where(trending, (early - slope)[:, None], mean[:, None])
    trends = np.where(trending, slope[:, None], grid.drift * overall[:, None])
    return levels, trends


def _line(panel: Panel, values: Array, most: int) -> tuple[Array, Array, Array]:
    """Return start, slope and mean (N,) of the least-squares line through the first `most` values."""
    times = panel.values.shape[1]
    positions = np.arange(times) - (times - panel.lengths)[:, None]  # from the start of each series
    used = (positions >= 0) & (positions < most)
    count = used.sum(axis=1)
    x_mean = np.where(used, positions, 0.0).sum(axis=1) / count
    y_mean = np.where(used, values, 0.0).sum(axis=1) / count
    x = np.where(used, positions - x_mean[:, None], 0.0)
    y = np.where(used, values - y_mean[:, None], 0.0)
    slope = (x * y).sum(axis=1) / np.maximum(np.square(x).sum(axis=1), 1e-12)
    return y_mean - slope * x_mean, slope, y_mean


def seasonal_indices(panel: Panel) -> Array:
    """(N, m): how far values at phase t % m lie from their level on average; rows sum to zero.

    The level is a centred moving average over a season. Indices s are multiplied by the James-Stein factor
    max(0, 1 - (m - 1) v / |s|^2) with v the variance of one index. Series shorter than two seasons have none.
    """
    m = panel.period
    values = panel.values
    if m == 1 or panel.lengths[0] < 2 * m:
        return np.zeros((len(panel), m))
    # Centred average over a season, NaN at the ends; the two ends of an even season count half.
    weights = np.ones(m + 1 - m % 2)
    if m % 2 == 0:
        weights[[0, -1]] = 0.5
    half = len(weights) // 2
    padded = np.pad(values, ((0, 0), (half, half)), constant_values=np.nan)
    level = np.zeros_like(values)
    for k, weight in enumerate(weights):
        level += weight * padded[:, k : k + values.shape[1]]
    apart = values - level / m
    phases = np.arange(values.shape[1]) % m
    known = np.isfinite(apart)
    filled = np.where(known, apart, 0.0)
    total = np.stack([filled[:, phases == phase].sum(axis=1) for phase in range(m)], axis=1)
    seen = np.stack([known[:, phases == phase].sum(axis=1) for phase in range(m)], axis=1)
    indices = total / np.maximum(seen, 1)
    indices -= indices.mean(axis=1, keepdims=True)
    rest = apart - indices[:, phases]
    count = known.sum(axis=1)
    variance = np.nansum(np.square(rest), axis=1) / np.maximum(count - m, 1)
    # Noise alone gives |s|^2 = (m - 1) v on average: indices that do not stand out from it shrink to none.
    noise = (m - 1) * variance * m / np.maximum(count, m)
    size = np.square(indices).sum(axis=1)
    factor = np.where(size > noise, 1 - noise / np.where(size > 0, size, 1.0), 0.0)
    return np.where(panel.lengths[:, None] >= 2 * m, factor[:, None] * indices, 0.0)
