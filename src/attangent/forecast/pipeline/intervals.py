"""Quantiles of forecast errors from the errors of earlier forecasts, pooled over the series of a panel."""

from dataclasses import dataclass

import numpy as np

from attangent.forecast.data.panel import Array, Integers, Mask

ENOUGH = 40
"""Number of residuals per step from which their own quantiles are used, and below it Student's t."""
SET_COUNTS_FOR = 16.0
"""The size of errors in the set counts as much as this many forecasts of a series itself."""
SPREAD_POWER = 0.4
LEAST_SPREAD = 1e-3
"""Errors grow with this power of the disagreement between models, in seasonal steps."""
OVERLAP = 6.0
"""Residuals of one forecast at neighbouring steps are correlated: this many count as one."""
USUAL_COUNTS_FOR = 4.0
"""The usual spread for the period counts as much as this many independent residuals."""
LONG = 400
"""Series of this many values tell from their residuals how errors grow with the step."""
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
USUAL_SPREAD = 1.5
USUAL_DECAY = -0.6
"""1.5 m^-0.6 seasonal steps per square root of a step: about that of a random walk, 1.25 m^-0.5.

Chosen with the other constants on training parts of the M1, M3, tourism and hospital series.
"""
FAR_BELOW = 30.0
"""The usual variance is at most this multiple of the residuals': exact series get narrow intervals."""


@dataclass(frozen=True)
class Residuals:
    """Scaled errors of forecasts from earlier origins.

    Attributes:
        errors: (R, H), NaN for unknown steps.
        spread: (R, H), scaled disagreement of the models that were combined.
        rows: (R,) number of the series that each residual belongs to.
    """

    errors: Array
    spread: Array
    rows: Integers


def error_quantiles(
    past: Residuals,
    spread: Array,
    period: int,
    probabilities: Array,
    lengths: Integers,
) -> Array:
    """Return quantiles (N, H, Q) of the scaled error of series with these lengths; they increase with Q.

    Args:
        past: Errors from earlier origins.
        spread: (N, H), scaled disagreement of the models now; the more they disagree, the wider the interval.
        period: Period of the series.
        probabilities: (Q,), between 0 and 1.
        lengths: (N,) numbers of values.
    """
    known = np.isfinite(past.errors).sum(axis=0) if len(past.errors) else np.zeros(1)
    reach = int((known >= ENOUGH).sum())
    if reach == 0:
        return _student(past.errors, period, probabilities, lengths)
    residuals = past.errors[:, :reach] / _width(past.spread[:, :reach])
    # Steps are pooled after division by their typical size: H times as many residuals for the tails.
    growth = _growing(np.nanmean(np.abs(residuals), axis=0))
    scaled = residuals / growth
    # Short series are not held back for all steps: further ones grow like those of a random walk.
    walk = _walk(spread.shape[1], period)
    growth = np.concatenate((growth, growth[-1] * walk[reach:] / walk[reach - 1]))
    sizes, held_out = _relative_sizes(np.nanmean(np.abs(scaled), axis=1), past.rows, len(lengths))
    scaled = scaled / held_out[:, None]
    centred = scaled[np.isfinite(scaled)]
    # The median and the skewness come from few origins that all series share, so both are removed.
    centred -= np.median(centred)
    ordered = np.sort(np.concatenate((centred, -centred)))
    # Rank p (n + 1), not p n: exchangeable errors then lie below with probability p (split conformal).
    ranks = probabilities * (len(ordered) + 1) - 1
    tails = np.interp(ranks, np.arange(len(ordered)), ordered)
    width = sizes[:, None] * growth * _width(spread)
    return width[:, :, None] * tails


def _walk(horizon: int, period: int) -> Array:
    return np.sqrt(np.arange(1, horizon + 1) + (period - 1) / 2)


def _width(spread: Array) -> Array:
    return np.maximum(spread, LEAST_SPREAD) ** SPREAD_POWER


def _relative_sizes(errors: Array, rows: Integers, count: int) -> tuple[Array, Array]:
    """Return the relative size (N,) of each series' errors, and (R,) the same without each residual.

    Both shrink towards 1: (k + sum of relative errors) / (k + their number). The second calibrates: a
    residual must not be divided by a size that it took part in.
    """
    relative = errors / max(float(errors.mean()), 1e-300)
    total = np.bincount(rows, relative, count)
    number = np.bincount(rows, minlength=count)
    sizes = (SET_COUNTS_FOR + total) / (SET_COUNTS_FOR + number)
    held_out = (SET_COUNTS_FOR + total[rows] - relative) / (SET_COUNTS_FOR + number[rows] - 1)
    return sizes, held_out


def _student(residuals: Array, period: int, probabilities: Array, lengths: Integers) -> Array:
    """Student's t about zero that grows with the square root of the step and half a season.

    Its variance is the mean square of the residuals, shrunk towards the usual one for the period; that is
    all there is if nothing could be held out.
    """
    from scipy.special import stdtrit as student

    growth = _walk(residuals.shape[1], period)
    known = np.isfinite(residuals)
    if lengths.min() >= LONG and len(residuals) > 1:
        growth = growth ** _exponent(residuals, growth, known)
    squares = np.square(residuals / growth)[known]
    independent = len(squares) / OVERLAP
    usual = np.clip(lengths - 1.0, 2.0, USUAL_COUNTS_FOR)  # (N,)
    variance = (USUAL_SPREAD * period**USUAL_DECAY) ** 2
    if len(squares) > 1:
        variance = min(variance, FAR_BELOW * float(squares.mean()))
    total = usual * variance + squares.sum() / OVERLAP
    tails = student((usual + independent)[:, None], probabilities[None, :])  # (N, Q)
    spread = np.sqrt(total / (usual + independent))
    return spread[:, None, None] * growth[None, :, None] * tails[:, None, :]


def _exponent(residuals: Array, growth: Array, known: Mask) -> float:
    """Return the power of `growth` under which the residuals are most likely, for normal errors.

    Errors of a long series that returns to its level hardly grow with the step; those of a walk do.
    """
    losses = {}
    for power in EXPONENTS:
        squares = np.square(residuals / growth**power)[known]
        logs = np.broadcast_to(power * np.log(growth), residuals.shape)[known]
        losses[power] = 0.5 * np.log(max(squares.mean(), 1e-300)) + logs.mean()
    return min(losses, key=losses.__getitem__)


def _growing(sizes: Array) -> Array:
    """g_i = max_{j <= i} min_{k >= i} mean(s_j ... s_k): the nondecreasing least-squares fit, above zero."""
    sums = np.concatenate(([0.0], np.cumsum(sizes)))
    first = np.arange(len(sizes))[:, None]
    last = np.arange(len(sizes))
    means = np.where(last >= first, (sums[1:] - sums[:-1, None]) / np.maximum(last - first + 1, 1), np.inf)
    lowest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]  # over k >= i, in row j
    return np.maximum(np.where(last >= first, lowest, -np.inf).max(axis=0), 1e-12)
