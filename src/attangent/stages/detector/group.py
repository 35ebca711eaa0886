"""The stages of one group: what its readings say about when its loss fell, and how surely."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from attangent.stages.detector.course import LossCourse, Readings
from attangent.stages.detector.noise import NOISES, spread, whitening
from attangent.stages.detector.prices import price
from attangent.stages.detector.search import Residuals, other_shapes, search
from attangent.stages.detector.shapes import Array, Shift, at

FEWEST = 20
"""Readings that are needed before anything is said."""
MOST = 400
"""More readings than this are averaged in runs of equal length first."""
_FLAT = 1e-9
_SMALL = 0.02
"""A fall by less than this share of the loss before it is passed over."""
_WIDTH = 1.96
_SKIPPED = 2
"""The first readings do not count toward the size of a fall: a decay may follow their noise."""
_CLOSE = 4.0
"""Other shapes of a fall count toward its interval where twice the log likelihood is within this."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Stage:
    """One fall of a group's loss after a plateau.

    It begins where a tenth of it is gone and is complete where nine tenths are; both come with an interval of
    95 %. `completion` is None while it still goes on at the last reading.
    """

    name: str
    onset: float
    onset_interval: Interval
    completion: float | None
    completion_interval: Interval | None
    plateau: float
    """The loss before it."""
    level: float
    """The loss after it, or now."""
    share: float
    """How much of the group's whole fall it is."""


@dataclass(frozen=True, eq=False)
class Group:
    """What is known of one group."""

    name: str
    stages: tuple[Stage, ...]
    readings: int
    level: float | None = None
    """The loss at the last reading, without noise; None while there are too few readings."""
    startup: float = 0.0
    """The share of the whole fall that is start-up: a smooth decay, or a fall without a plateau."""
    noise: float = 0.0
    """Standard deviation of a reading around the course."""
    correlation: float = 0.0
    """Of the noise of one reading with the next."""
    steps: Array = field(default_factory=lambda: np.empty(0), repr=False)
    mean: Array = field(default_factory=lambda: np.empty(0), repr=False)
    """The fitted loss at `steps`."""

    @property
    def begins(self) -> Interval | None:
        """Where its fall begins and the standard error of that; None where it does not fall.

        A group that falls mostly in the start-up begins at its first reading.
        """
        if self.stages and self.startup < 0.5:
            onset, (low, high) = self.stages[0].onset, self.stages[0].onset_interval
            return onset, (high - low) / (2 * _WIDTH)
        return (float(self.steps[0]), 0.0) if self.startup >= 0.5 or self.stages else None


def examine(
    name: str,
    steps: Iterable[float],
    losses: Iterable[float],
    false_alarms: float = 0.05,
    least: float = 0.05,
) -> Group:
    """Stages of one group from all its readings, steps going up.

    false_alarms: in so many of curves without a stage one is found; least: falls below this share of the
    whole are passed over.
    """
    t, y = np.array([*steps], dtype=float), np.array([*losses], dtype=float)
    count = len(t)
    if count < FEWEST:
        return Group(name, (), count)
    t, y = _averaged(t, y)
    if spread(y) <= _FLAT * float(np.abs(y).max()):
        return Group(name, (), count, level=float(y[-1]), steps=t, mean=y)
    readings = Readings.of(t, y)
    course = search(readings, price(false_alarms, len(t)))
    stages, startup = _stages(name, course, false_alarms, least)
    mean = readings.middle + readings.scale * course.mean
    return Group(
        name,
        tuple(_scaled(stage, readings.middle, readings.scale) for stage in stages),
        count,
        level=float(mean[-1]),
        startup=startup,
        noise=float(np.std(y - mean)),
        correlation=course.noise.correlation,
        steps=t,
        mean=mean,
    )


def _averaged(t: Array, y: Array) -> tuple[Array, Array]:
    """Means of equal runs of readings, at most MOST of them; the last run may be shorter."""
    size = -(-len(t) // MOST)
    if size == 1:
        return t, y
    edges = np.arange(0, len(t), size)
    counts = np.diff(np.append(edges, len(t)))
    return np.add.reduceat(t, edges) / counts, np.add.reduceat(y, edges) / counts


def _stages(name: str, course: LossCourse, false_alarms: float, least: float) -> tuple[list[Stage], float]:
    """The falls that are stages, and the share of the whole fall that belongs to the start-up."""
    mean = course.mean
    if not course.changes:
        return [], float(_decays(course, false_alarms))
    whole = float(mean[_SKIPPED:].max() - mean.min())
    smooth = course.A.shape[1] - len(course.changes)
    fitted = course.A[:, :smooth] @ course.coefficients[:smooth]
    found, startup = [], float(fitted[_SKIPPED] - fitted[-1])
    for number in np.argsort([change.place for change in course.changes]):
        change, height = course.changes[number], float(course.heights[number])
        if change.sign > 0 and _has_no_plateau(mean, change):
            startup += height
        elif change.sign > 0 and _progress(mean, change) >= max(least * whole, _smallest(course, change)):
            found.append(_stage(name, course, int(number), height / whole))
    return found, min(startup / whole, 1.0)


def _decays(course: LossCourse, false_alarms: float) -> bool:
    """Whether a course without changes falls, rather than staying where it is."""
    readings, n, values = course.readings, len(course.readings), []
    for noise in NOISES:
        white, y = whitening(noise, n), readings.whitened(noise)
        one = white.of_ones[:, 0]
        left = float(y @ y - (one @ y) ** 2 / (one @ one))
        values.append((left + readings.floor) * white.profile)
    gain = n * np.log(min(values) / course.value)
    return bool(gain > price(false_alarms, n).first)


def _has_no_plateau(mean: Array, change: Shift) -> bool:
    """Whether a fall begins so soon that nothing shows a plateau before it, or out of a fall as fast.

    The second compares its first nine tenths with half its length before: a bend in the start-up is no stage.
    """
    if change.place < max(3.0, change.length / 3):
        return True
    ahead = max(change.length / 2, 2.0)
    places = [change.place - ahead, change.place, change.place + change.length]
    before, onset, end = np.interp(places, np.arange(len(mean)), mean)
    return bool((before - onset) / ahead >= (onset - end) / change.length > 0)


def _progress(mean: Array, change: Shift) -> float:
    """How far the loss goes below anything it was before: a fall back to where it has been is a recovery."""
    start, end = _ends(mean, change)
    return float(mean[: start + 1].min() - mean[end])


def _smallest(course: LossCourse, change: Shift) -> float:
    readings = course.readings
    before = readings.middle / readings.scale + float(course.mean[_ends(course.mean, change)[0]])
    return _SMALL * abs(before)


def _ends(mean: Array, change: Shift) -> tuple[int, int]:
    """The readings nearest to the onset and to where 99 % of the fall are gone."""
    places = (change.place, change.place + 1.6 * change.length)
    start, end = (int(np.clip(round(place), 0, len(mean) - 1)) for place in places)
    return start, end


def _stage(name: str, course: LossCourse, number: int, share: float) -> Stage:
    change, steps, mean = course.changes[number], course.readings.steps, course.mean
    onset, end = (Place.of(course, number, part) for part in (0.0, 1.0))
    for other in other_shapes(course, number):
        if course.gain_over(other) < _CLOSE:
            onset = onset.joined(Place.of(other, number, 0.0))
            end = end.joined(Place.of(other, number, 1.0))
    start, stop = _ends(mean, change)
    over = end.high <= len(steps) - 1
    return Stage(
        name,
        onset=at(steps, change.place),
        onset_interval=onset.interval(steps),
        completion=at(steps, change.place + change.length) if over else None,
        completion_interval=end.interval(steps) if over else None,
        plateau=float(mean[max(start - int(change.length / 4) - 1, 0)]),
        level=float(mean[stop]),
        share=share,
    )


@dataclass(frozen=True)
class Place:
    """A place between readings with the interval it lies in."""

    low: float
    high: float

    @classmethod
    def of(cls, course: LossCourse, number: int, part: float) -> "Place":
        """Onset (part 0) or completion (part 1) of a change, by the curvature of the sum of squares."""
        residuals = Residuals(course.readings, course.changes, course.noise)
        _, active, heights = residuals.fit(residuals.start)
        J = residuals.slopes(residuals.start, active, heights)
        free = max(len(course.readings) - 1 - course.A.shape[1], 1)
        covariance = np.linalg.pinv(J.T @ J) * course.value / free
        change = course.changes[number]
        direction = np.zeros(len(residuals.start))
        direction[2 * number : 2 * number + 2] = 1.0, part * change.length
        error = max(float(np.sqrt(direction @ covariance @ direction)), 0.25)
        middle = change.place + part * change.length
        return cls(middle - _WIDTH * error, middle + _WIDTH * error)

    def joined(self, other: "Place") -> "Place":
        return Place(min(self.low, other.low), max(self.high, other.high))

    def interval(self, steps: Array) -> Interval:
        return at(steps, max(self.low, 0.0)), at(steps, self.high)


def _scaled(stage: Stage, middle: float, scale: float) -> Stage:
    return replace(stage, plateau=middle + scale * stage.plateau, level=middle + scale * stage.level)
