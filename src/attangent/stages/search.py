"""Find the changes in a loss curve: try one at a time, move it to the best fit, keep it if it pays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from attangent._core.checks import check_between
from attangent.stages.loss_model import (
    SCOUTS,
    SHAPES,
    Array,
    LossChange,
    LossCurve,
    LossFit,
    Noise,
    least_squares,
    spread,
    whitening,
)

_AHEAD = 2
"""Changes to try after the last one that paid: two or three similar falls look straight until all are in."""
MOST_CHANGES = 8
_MOST_JOINED = 5
_WHITE = SCOUTS[0]
_READINGS = (30, 120, 400)
_FIRST = {0.1: (22.8, 21.6, 22.1), 0.05: (26.5, 24.5, 25.2), 0.01: (36.5, 31.1, 34.3)}
_LATER = {0.1: (14.0, 16.2, 14.9), 0.05: (16.3, 17.4, 16.4), 0.01: (20.1, 20.3, 20.0)}
"""Thresholds by false-alarm rate and number of readings, the largest over all noises.

Measured by `python -m benchmarks.suites.stages.calibration` on flat noise, from independent to a random walk,
and sums of both.
"""


@dataclass(frozen=True)
class Threshold:
    """Twice the log likelihood ratio that K changes must exceed: first + (K - 1) later."""

    first: float
    later: float

    def of(self, changes: int) -> float:
        """Return the threshold for a number of changes."""
        return self.first + (changes - 1) * self.later if changes else 0.0


def threshold(false_alarms: float, readings: int) -> Threshold:
    """Return what flat noise exceeds in this share of curves, whatever the number of changes."""
    check_between("false_alarms", false_alarms, 1e-6, 0.5)
    return Threshold(*(_interpolated(table, false_alarms, readings) for table in (_FIRST, _LATER)))


def _interpolated(table: dict[float, tuple[float, ...]], false_alarms: float, readings: int) -> float:
    """Interpolate and extrapolate in the logarithms of the rate and of the number of readings."""
    at_rate = {
        rate: float(np.interp(np.log(readings), np.log(_READINGS), values)) for rate, values in table.items()
    }
    near, far = (0.05, 0.01) if false_alarms < 0.05 else (0.1, 0.05)
    slope = (at_rate[far] - at_rate[near]) / np.log(near / far)
    return at_rate[near] + slope * float(np.log(near / false_alarms))


def search(curve: LossCurve, limit: Threshold) -> LossFit:
    """Return the fit whose changes gain most above the threshold, or the fit without changes."""
    null = LossFit(curve)
    # Step 1: a coarse start. Many short falls are fitted at once and joined into a few long ones, because
    # several equal falls gain little one at a time.
    start = _joined_at_once(null, limit)
    # Step 2: add changes greedily, reshaping after each success; then drop those the others make redundant.
    best = _one_by_one(start, null, limit)
    # Step 3: the whole set must pay for itself, or the curve has no changes at all.
    return best if _worth(best, null, limit) > 0 else null


def _worth(fit: LossFit, null: LossFit, limit: Threshold) -> float:
    return fit.gain_over(null) - limit.of(len(fit.changes))


def _one_by_one(start: LossFit, null: LossFit, limit: Threshold) -> LossFit:
    fit = start
    best = start
    # Look _AHEAD changes beyond the best: the next one alone may not pay while the next two do.
    while len(fit.changes) < min(len(best.changes) + _AHEAD, MOST_CHANGES):
        larger = with_one_more(fit)
        if larger is fit:
            break
        fit = larger
        if _worth(fit, null, limit) > _worth(best, null, limit):
            fit = _reshaped(fit)
            best = fit
    return _without_redundant(best, limit.first)


def with_one_more(fit: LossFit) -> LossFit:
    """Return the fit with its best additional change, or the same fit if there is none."""
    tried = [moved(fit.curve, (*fit.changes, change), fit.noise) for change in _promising(fit)]
    valid = (candidate for candidate in tried if _rises_are_rises(candidate))
    return min(valid, key=lambda candidate: candidate.value, default=fit)


def _rises_are_rises(fit: LossFit) -> bool:
    """Return whether the loss goes up at every rise, rather than merely falling more slowly."""
    mean = fit.mean
    for change, height in zip(fit.changes, fit.heights, strict=True):
        if change.sign < 0:
            ends = np.clip([change.start, change.start + change.length], 0, len(mean) - 1).round().astype(int)
            if mean[ends[1]] - mean[ends[0]] < 0.4 * height:
                return False
    return True


def _promising(fit: LossFit) -> list[LossChange]:
    """Return the fall and the rise that would gain most, whatever the noise."""
    ranked: list[tuple[float, LossChange]] = []
    # The noise that is most likely now may change with the next change: ask every scout.
    for noise in SCOUTS:
        slope, gain = _gains(fit, noise)
        profile = whitening(noise, len(fit.curve)).profile
        _, value = fit.fit_at(noise)
        for sign in (1.0, -1.0):
            best = int(np.argmax(np.where(sign * slope > 0, gain, 0.0)))
            change = replace(fit.curve.basis.changes[best], sign=sign)
            ranked.append((value - profile * gain[best], change))
    ranked.sort(key=lambda pair: pair[0])
    return [next(change for _, change in ranked if change.sign == sign) for sign in (1.0, -1.0)]


def _gains(fit: LossFit, noise: Noise) -> tuple[Array, Array]:
    """Return, per candidate, its product with the residual and how much it would lower the squares."""
    basis = fit.curve.basis
    white = whitening(noise, len(fit.curve))
    squares, with_decays = basis.scouted[noise]
    x, _ = fit.fit_at(noise)
    active = np.flatnonzero(x > 0)
    left = fit.curve.losses - fit.A @ x
    # W'W applied once to the residual and the present changes replaces whitening every candidate again.
    back = white.back(white(np.column_stack([left, fit.columns])))
    with_all = basis.columns.T @ back
    inner = np.concatenate([with_decays, with_all[:, 1:]], axis=1)[:, active]
    # Each candidate counts only by what the active columns cannot express (its Schur complement).
    G = fit.products(noise)[0][np.ix_(active, active)]
    inverse = np.linalg.pinv(G, rcond=1e-10, hermitian=True)
    free = squares - ((inner @ inverse) * inner).sum(1)
    slope = with_all[:, 0]
    return slope, np.where(free > 1e-6 * squares, slope**2 / np.maximum(free, 1e-300), 0.0)


def _joined_at_once(null: LossFit, limit: Threshold) -> LossFit:
    """Fit many short falls at once, join them into a few long ones, and drop the least important."""
    curve = null.curve
    n = len(curve)
    length = max(4.0, n / 100)
    many = [LossChange("logistic", start, length) for start in np.arange(0.0, n - length, length / 2)]
    # As if readings were independent: the noise is unknown yet, and this is only a start.
    x, _ = least_squares(*LossFit(curve, many).products(_WHITE))
    heights = x[-len(many) :]
    least = 0.02 * spread(curve.losses)
    short = [(fall, height) for fall, height in zip(many, heights, strict=True) if height > least]
    joined = [_joined(short, count) for count in range(1, min(len(short), _MOST_JOINED) + 1)]
    tried = [LossFit(curve, falls) for falls in joined]
    if not tried:
        return null
    white = min(tried, key=lambda fit: n * np.log(fit.fit_at(_WHITE)[1]) + limit.later * len(fit.changes))
    first = max(_thinned(moved(curve, white.changes, _WHITE)), key=lambda fit: _worth(fit, null, limit))
    # Reshaping gains at most about one later threshold; below that the start cannot pay.
    if _worth(first, null, limit) < -limit.later:
        return null
    better = _without_redundant(_reshaped(first), limit.first)
    return better if _worth(better, null, limit) > 0 else null


def _thinned(fit: LossFit) -> list[LossFit]:
    """Return the fit and its nested simplifications, dropping the least important change each time."""
    nested = [fit]
    while len(fit.changes) > 1:
        least = min(range(len(fit.changes)), key=partial(_value_without, fit))
        fit = moved(fit.curve, _without(fit.changes, least), fit.noise, rounds=1)
        nested.append(fit)
    return nested


def _value_without(fit: LossFit, index: int) -> float:
    """Return the value without one change, with the other changes and the noise fixed."""
    return LossFit(fit.curve, _without(fit.changes, index)).fit_at(fit.noise)[1]


def _without(changes: tuple[LossChange, ...], index: int) -> tuple[LossChange, ...]:
    return changes[:index] + changes[index + 1 :]


def _joined(falls: list[tuple[LossChange, float]], count: int) -> list[LossChange]:
    """Join short falls, given in order, into `count` long ones, split at the widest gaps."""
    gaps = [after.start - before.start for (before, _), (after, _) in pairwise(falls)]
    cuts = sorted(int(gap) + 1 for gap in np.argsort(gaps)[len(gaps) - count + 1 :])
    return [_span(falls[start:stop]) for start, stop in pairwise([0, *cuts, len(falls)])]


def _span(falls: list[tuple[LossChange, float]]) -> LossChange:
    """Return one fall that starts when a tenth of these is gone and ends when nine tenths are."""
    gone = np.cumsum([height for _, height in falls])
    first, last = (falls[int(np.searchsorted(gone, share * gone[-1]))][0] for share in (0.1, 0.9))
    return LossChange("logistic", first.start, last.start + last.length - first.start)


def moved(curve: LossCurve, changes: Sequence[LossChange], noise: Noise, rounds: int = 2) -> LossFit:
    """Move and stretch the changes to the best fit, refitting the noise after each round."""
    fit = None
    for _ in range(rounds):
        changes = ChangeResiduals(curve, changes, noise).minimised()
        fit = LossFit(curve, changes)
        if fit.noise == noise:
            break
        noise = fit.noise
    assert fit is not None
    return fit


class ChangeResiduals:
    """White noise left as a function of the starts and log lengths of changes, everything linear fitted.

    Eliminating the linear coefficients (variable projection) leaves two unknowns per change.
    """

    def __init__(self, curve: LossCurve, changes: Sequence[LossChange], noise: Noise):
        self.curve = curve
        self.changes = tuple(changes)
        self.whitened = whitening(noise, len(curve))
        self.y = curve.whitened(noise)
        self.decays, self.among = curve.basis.whitened(noise)
        self.start = np.array([value for c in self.changes for value in (c.start, np.log(c.length))])

    def at(self, position: Array) -> tuple[LossChange, ...]:
        """Return the changes at other starts and lengths."""
        return tuple(
            LossChange(change.shape, float(start), float(np.exp(length)), change.sign)
            for change, start, length in zip(self.changes, position[::2], position[1::2], strict=True)
        )

    def _columns(self, position: Array) -> Array:
        changes = [change.column(self.curve.steps) for change in self.at(position)]
        return self.whitened(np.column_stack(changes))

    def fit(self, position: Array) -> tuple[Array, Array, Array]:
        """Return the residuals, the active columns, and the heights of the changes."""
        columns = self._columns(position)
        A = np.concatenate([self.decays, columns], axis=1)
        mixed = columns.T @ self.decays
        G = np.block([[self.among, mixed.T], [mixed, columns.T @ columns]])
        x, _ = least_squares(G, A.T @ self.y, float(self.y @ self.y))
        return self.y - A @ x, A[:, x > 0], x[-len(self.changes) :]

    def slopes(self, position: Array, active: Array, heights: Array) -> Array:
        """Return the derivative of the residuals: -P dA x, P the projection off the active columns.

        This is Kaufman's form of variable projection: it drops the term in which P itself moves.
        """
        D = np.empty((len(self.y), len(position)))
        nudges = np.where(np.arange(len(position)) % 2, 1e-3, 1e-3 * np.exp(np.repeat(position[1::2], 2)))
        here = self._columns(position)
        for index, nudge in enumerate(nudges):
            nudged = position.copy()
            nudged[index] += nudge
            change = self.whitened(self.at(nudged)[index // 2].column(self.curve.steps)[:, None])[:, 0]
            D[:, index] = heights[index // 2] * (change - here[:, index // 2]) / nudge
        Q, _ = np.linalg.qr(active)
        return -(D - Q @ (Q.T @ D))

    def minimised(self, rounds: int = 10) -> tuple[LossChange, ...]:
        """Return the changes at a nearby minimum of the sum of squares (Levenberg-Marquardt)."""
        n = len(self.curve)
        low = np.zeros(2 * len(self.changes))
        high = np.tile([n - 1.0, np.log(0.75 * n)], len(self.changes))
        position = np.clip(self.start, low, high)
        damping = 1e-2
        left, active, heights = self.fit(position)
        for _ in range(rounds):
            J = self.slopes(position, active, heights)
            value = left @ left
            H = J.T @ J
            g = J.T @ left
            # Raise the damping until a step lowers the squares; give up on this minimum after four tries.
            for _ in range(4):
                step = np.linalg.solve(H + np.diag(damping * np.diag(H) + 1e-12 * np.trace(H) + 1e-300), g)
                tried = np.clip(position - np.clip(step, -_longest(position), _longest(position)), low, high)
                result = self.fit(tried)
                if result[0] @ result[0] < value:
                    break
                damping *= 6
            else:
                break
            position = tried
            damping = damping / 5
            left, active, heights = result
            if left @ left > (1 - 1e-5) * value:
                break
        return self.at(position)


def _longest(position: Array) -> Array:
    """The longest step: a start by its change's length or two readings, a length by a factor of two."""
    most = np.full(len(position), np.log(2.0))
    most[::2] = np.maximum(np.exp(position[1::2]), 2.0)
    return most


def _reshaped(fit: LossFit) -> LossFit:
    """Give each change the shape that fits best."""
    for index in range(len(fit.changes)):
        fit = min((fit, *other_shapes(fit, index)), key=lambda candidate: candidate.value)
    return fit


def other_shapes(fit: LossFit, index: int) -> list[LossFit]:
    """Return the fits with one change in each of the other shapes, moved to the best fit."""
    change = fit.changes[index]
    before = fit.changes[:index]
    after = fit.changes[index + 1 :]
    return [
        moved(fit.curve, (*before, replace(change, shape=shape), *after), fit.noise, rounds=1)
        for shape in SHAPES
        if shape != change.shape
    ]


def _without_redundant(fit: LossFit, least: float) -> LossFit:
    """Drop changes that gain less than `least` given the others."""
    for index in reversed(range(len(fit.changes))):
        rest = _without(fit.changes, index)
        smaller = _reshaped(moved(fit.curve, rest, fit.noise)) if rest else LossFit(fit.curve)
        if fit.gain_over(smaller) < least:
            return _without_redundant(smaller, least)
    return fit
