"""The stages of one group: when its loss fell, and how certain that is."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from attangent.stages.loss_model import (
    NOISES,
    Array,
    LossChange,
    LossCurve,
    LossFit,
    spread,
    step_at,
    whitening,
)
from attangent.stages.search import ChangeResiduals, other_shapes, search, threshold

FEWEST = 20
"""Fewest readings from which anything is concluded."""
MOST = 400
"""Longer curves are averaged over runs of equal length first."""
_FLAT = 1e-9
_SMALL = 0.02
"""Falls below this share of the loss before them are ignored."""
_WIDTH = 1.96
_SKIPPED = 2
"""The first readings do not count toward the size of a fall: a decay may follow their noise."""
_CLOSE = 4.0
"""Other shapes of a fall widen its interval if twice the log likelihood is within this."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Stage:
    """One fall of a group's loss after a plateau; intervals are 95 %.

    Attributes:
        name: The group.
        onset: Step at which a tenth of the fall is gone.
        onset_interval: Its interval.
        completion: Step at which nine tenths are gone; None if it was still falling at the last reading.
        completion_interval: Its interval.
        plateau: The loss before the fall.
        level: The loss after the fall, or at the last reading.
        share: Share of the group's total fall.
    """

    name: str
    onset: float
    onset_interval: Interval
    completion: float | None
    completion_interval: Interval | None
    plateau: float
    level: float
    share: float


@dataclass(frozen=True, eq=False)
class Group:
    """The stages and the fitted curve of one group.

    Attributes:
        name: The group.
        stages: Its stages in order.
        readings: Number of readings.
        level: The fitted loss at the last reading; None if there are too few readings.
        startup: Share of the total fall that is start-up: a smooth decay, or a fall without a plateau.
        noise: Standard deviation of a reading around the fit.
        correlation: Correlation of the noise of one reading with the next.
        steps: Steps of the fitted curve.
        mean: The fitted loss at `steps`.
    """

    name: str
    stages: tuple[Stage, ...]
    readings: int
    level: float | None = None
    startup: float = 0.0
    noise: float = 0.0
    correlation: float = 0.0
    steps: Array = field(default_factory=lambda: np.empty(0), repr=False)
    mean: Array = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def begins(self) -> Interval | None:
        """The step at which the group begins to fall and its standard error; None if it does not fall.

        A group that falls mostly in the start-up begins at its first reading.
        """
        if self.stages and self.startup < 0.5:
            low, high = self.stages[0].onset_interval
            return self.stages[0].onset, (high - low) / (2 * _WIDTH)
        return (float(self.steps[0]), 0.0) if self.startup >= 0.5 or self.stages else None


def examine(
    name: str,
    steps: Iterable[float],
    losses: Iterable[float],
    false_alarms: float = 0.05,
    least: float = 0.05,
) -> Group:
    """Find the stages of one group.

    Args:
        name: The group.
        steps: Rising steps.
        losses: One loss per step.
        false_alarms: Share of stage-free curves in which a stage is reported.
        least: Smallest share of the total fall that counts as a stage.
    """
    t = np.array([*steps], dtype=float)
    y = np.array([*losses], dtype=float)
    count = len(t)
    if count < FEWEST:
        return Group(name, (), count)
    t, y = _averaged(t, y)
    if spread(y) <= _FLAT * float(np.abs(y).max()):
        return Group(name, (), count, level=float(y[-1]), steps=t, mean=y)
    curve = LossCurve.of(t, y)
    fit = search(curve, threshold(false_alarms, len(t)))
    stages, startup = _stages(name, fit, false_alarms, least)
    mean = curve.middle + curve.scale * fit.mean
    return Group(
        name,
        tuple(_unscaled(stage, curve) for stage in stages),
        count,
        level=float(mean[-1]),
        startup=startup,
        noise=float(np.std(y - mean)),
        correlation=fit.noise.correlation,
        steps=t,
        mean=mean,
    )


def _averaged(t: Array, y: Array) -> tuple[Array, Array]:
    """Average equal runs of readings down to at most MOST; the last run may be shorter."""
    size = -(-len(t) // MOST)
    if size == 1:
        return t, y
    edges = np.arange(0, len(t), size)
    counts = np.diff(np.append(edges, len(t)))
    return np.add.reduceat(t, edges) / counts, np.add.reduceat(y, edges) / counts


def _stages(name: str, fit: LossFit, false_alarms: float, least: float) -> tuple[list[Stage], float]:
    """Return the falls that are stages, and the share of the total fall that belongs to the start-up."""
    mean = fit.mean
    if not fit.changes:
        return [], float(_decays(fit, false_alarms))
    total = float(mean[_SKIPPED:].max() - mean.min())
    smooth = fit.A.shape[1] - len(fit.changes)
    decay = fit.A[:, :smooth] @ fit.coefficients[:smooth]
    stages = []
    startup = float(decay[_SKIPPED] - decay[-1])
    for index in np.argsort([change.start for change in fit.changes]):
        change = fit.changes[index]
        height = float(fit.heights[index])
        if change.sign > 0 and _has_no_plateau(mean, change):
            startup += height
        elif change.sign > 0 and _progress(mean, change) >= max(least * total, _smallest(fit, change)):
            stages.append(_stage(name, fit, int(index), height / total))
    return stages, min(startup / total, 1.0)


def _decays(fit: LossFit, false_alarms: float) -> bool:
    """Return whether a fit without changes falls, rather than staying level."""
    curve = fit.curve
    n = len(curve)
    values = []
    # The best constant under every noise, by generalised least squares in closed form.
    for noise in NOISES:
        white = whitening(noise, n)
        y = curve.whitened(noise)
        ones = white.of_ones[:, 0]
        left = float(y @ y - (ones @ y) ** 2 / (ones @ ones))
        values.append((left + curve.floor) * white.profile)
    gain = n * np.log(min(values) / fit.value)
    return bool(gain > threshold(false_alarms, n).first)


def _has_no_plateau(mean: Array, change: LossChange) -> bool:
    """Return whether a fall starts too early to show a plateau, or continues a fall that is as fast."""
    if change.start < max(3.0, change.length / 3):
        return True
    # Compare the slope over half a length before the fall with that of the fall: a bend in the start-up is
    # no stage.
    ahead = max(change.length / 2, 2.0)
    indices = [change.start - ahead, change.start, change.start + change.length]
    before, onset, end = np.interp(indices, np.arange(len(mean)), mean)
    return bool((before - onset) / ahead >= (onset - end) / change.length > 0)


def _progress(mean: Array, change: LossChange) -> float:
    """Return how far the loss falls below its earlier minimum: a fall to a previous level is a recovery."""
    start, end = _ends(mean, change)
    return float(mean[: start + 1].min() - mean[end])


def _smallest(fit: LossFit, change: LossChange) -> float:
    before = fit.curve.middle / fit.curve.scale + float(fit.mean[_ends(fit.mean, change)[0]])
    return _SMALL * abs(before)


def _ends(mean: Array, change: LossChange) -> tuple[int, int]:
    """Return the readings nearest to the onset and to where 99 % of the fall are gone."""
    ends = (change.start, change.start + 1.6 * change.length)
    start, end = (int(np.clip(round(index), 0, len(mean) - 1)) for index in ends)
    return start, end


def _stage(name: str, fit: LossFit, index: int, share: float) -> Stage:
    change = fit.changes[index]
    steps = fit.curve.steps
    onset = _index_interval(fit, index, 0.0)
    end = _index_interval(fit, index, 1.0)
    # The curvature knows one shape only: shapes that fit about as well widen the intervals.
    for other in other_shapes(fit, index):
        if fit.gain_over(other) < _CLOSE:
            onset = _union(onset, _index_interval(other, index, 0.0))
            end = _union(end, _index_interval(other, index, 1.0))
    start, stop = _ends(fit.mean, change)
    complete = end[1] <= len(steps) - 1
    return Stage(
        name,
        onset=step_at(steps, change.start),
        onset_interval=_step_interval(steps, onset),
        completion=step_at(steps, change.start + change.length) if complete else None,
        completion_interval=_step_interval(steps, end) if complete else None,
        plateau=float(fit.mean[max(start - int(change.length / 4) - 1, 0)]),
        level=float(fit.mean[stop]),
        share=share,
    )


def _index_interval(fit: LossFit, index: int, fraction: float) -> Interval:
    """Return the interval of a change's onset (fraction 0) or completion (1), counted in readings."""
    residuals = ChangeResiduals(fit.curve, fit.changes, fit.noise)
    _, active, heights = residuals.fit(residuals.start)
    J = residuals.slopes(residuals.start, active, heights)
    free = max(len(fit.curve) - 1 - fit.A.shape[1], 1)
    covariance = np.linalg.pinv(J.T @ J) * fit.value / free
    change = fit.changes[index]
    # The unknowns are start and log length: completion = start + e^(log length).
    direction = np.zeros(len(residuals.start))
    direction[2 * index] = 1.0
    direction[2 * index + 1] = fraction * change.length
    error = max(float(np.sqrt(direction @ covariance @ direction)), 0.25)
    middle = change.start + fraction * change.length
    return middle - _WIDTH * error, middle + _WIDTH * error


def _union(first: Interval, second: Interval) -> Interval:
    return min(first[0], second[0]), max(first[1], second[1])


def _step_interval(steps: Array, interval: Interval) -> Interval:
    return step_at(steps, max(interval[0], 0.0)), step_at(steps, interval[1])


def _unscaled(stage: Stage, curve: LossCurve) -> Stage:
    plateau = curve.middle + curve.scale * stage.plateau
    return replace(stage, plateau=plateau, level=curve.middle + curve.scale * stage.level)
