"""The changes of a course: tried one by one, moved to where they fit best, kept if they gain enough."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from attangent.stages.detector.course import LossCourse, Readings
from attangent.stages.detector.noise import SCOUTS, Noise, least_squares, spread, whitening
from attangent.stages.detector.prices import Price
from attangent.stages.detector.shapes import SHAPES, Array, Shift

_AHEAD = 2
"""So many more are tried after the last that paid: two or three like falls look straight until all are in."""
MOST_CHANGES = 8
_MOST_JOINED = 5
_WHITE = SCOUTS[0]


def search(readings: Readings, price: Price) -> LossCourse:
    """The course whose changes gain most above their price; each, beside the others, gains the first's.

    It begins with many falls joined into few, where that pays, and goes on one change at a time.
    """
    null = LossCourse(readings)
    found = _one_by_one(_joined_at_once(null, price), null, price)
    return found if _worth(found, null, price) > 0 else null


def gains(readings: Readings, most: int = 3) -> list[float]:
    """The gains of 1 to `most` changes over none, tried one by one: what a price is compared with."""
    course = null = LossCourse(readings)
    found = []
    for _ in range(most):
        course = _with_one_more(course)
        found.append(course.gain_over(null))
    return found


def _worth(course: LossCourse, null: LossCourse, price: Price) -> float:
    return course.gain_over(null) - price.of(len(course.changes))


def _one_by_one(start: LossCourse, null: LossCourse, price: Price) -> LossCourse:
    course = best = start
    while len(course.changes) < min(len(best.changes) + _AHEAD, MOST_CHANGES):
        larger = _with_one_more(course)
        if larger is course:
            break
        course = larger
        if _worth(course, null, price) > _worth(best, null, price):
            best = course = _reshaped(course)
    return _without_idle(best, price.first)


def _with_one_more(course: LossCourse) -> LossCourse:
    tried = [moved(course.readings, (*course.changes, change), course.noise) for change in _promising(course)]
    return min((found for found in tried if _rises_are_rises(found)), key=lambda f: f.value, default=course)


def _rises_are_rises(course: LossCourse) -> bool:
    """Whether the loss goes up where a change says so, rather than merely falling more slowly."""
    mean = course.mean
    for change, height in zip(course.changes, course.heights, strict=True):
        if change.sign < 0:
            ends = np.clip([change.place, change.place + change.length], 0, len(mean) - 1).round().astype(int)
            if mean[ends[1]] - mean[ends[0]] < 0.4 * height:
                return False
    return True


def _promising(course: LossCourse) -> list[Shift]:
    """The falls and rises that would gain most, what is there refitted: the best of each over all scouts."""
    found: list[tuple[float, Shift]] = []
    for noise in SCOUTS:
        slope, gain = _gains(course, noise)
        profile, (_, value) = whitening(noise, len(course.readings)).profile, course.fit_at(noise)
        for sign in (1.0, -1.0):
            place = int(np.argmax(np.where(sign * slope > 0, gain, 0.0)))
            change = replace(course.readings.basis.changes[place], sign=sign)
            found.append((value - profile * gain[place], change))
    found.sort(key=lambda pair: pair[0])
    return [next(change for _, change in found if change.sign == sign) for sign in (1.0, -1.0)]


def _gains(course: LossCourse, noise: Noise) -> tuple[Array, Array]:
    """For each change to try: its product with what is left, and by how much it would lower the squares."""
    basis, white = course.readings.basis, whitening(noise, len(course.readings))
    squares, with_decays = basis.scouted[noise]
    x, _ = course.fit_at(noise)
    active = np.flatnonzero(x > 0)
    left = course.readings.losses - course.A @ x
    back = white.back(white(np.column_stack([left, course.own])))
    with_all = basis.columns.T @ back
    inner = np.concatenate([with_decays, with_all[:, 1:]], axis=1)[:, active]
    G = course.products(noise)[0][np.ix_(active, active)]
    inverse = np.linalg.pinv(G, rcond=1e-10, hermitian=True)
    free = squares - ((inner @ inverse) * inner).sum(1)
    slope = with_all[:, 0]
    return slope, np.where(free > 1e-6 * squares, slope**2 / np.maximum(free, 1e-300), 0.0)


def _joined_at_once(null: LossCourse, price: Price) -> LossCourse:
    """Many short falls fitted at once as if readings were independent, then joined into few long ones.

    Of those, the ones that are missed least go again, as far as that pays.
    """
    readings, n = null.readings, len(null.readings)
    length = max(4.0, n / 100)
    many = [Shift("logistic", place, length) for place in np.arange(0.0, n - length, length / 2)]
    x, _ = least_squares(*LossCourse(readings, many).products(_WHITE))
    heights, least = x[-len(many) :], 0.02 * spread(readings.losses)
    short = [(fall, height) for fall, height in zip(many, heights, strict=True) if height > least]
    joined = [_joined(short, count) for count in range(1, min(len(short), _MOST_JOINED) + 1)]
    tried = [LossCourse(readings, falls) for falls in joined]
    if not tried:
        return null
    white = min(tried, key=lambda c: n * np.log(c.fit_at(_WHITE)[1]) + price.later * len(c.changes))
    first = max(_thinned(moved(readings, white.changes, _WHITE)), key=lambda c: _worth(c, null, price))
    if _worth(first, null, price) < -price.later:
        return null
    better = _without_idle(_reshaped(first), price.first)
    return better if _worth(better, null, price) > 0 else null


def _thinned(course: LossCourse) -> list[LossCourse]:
    """The course, and what is left of it as the change that it would miss least goes, down to one."""
    found = [course]
    while len(course.changes) > 1:
        least = min(range(len(course.changes)), key=partial(_missed, course))
        course = moved(course.readings, _without(course.changes, least), course.noise, rounds=1)
        found.append(course)
    return found


def _missed(course: LossCourse, number: int) -> float:
    """The value without a change, all others where they are and the noise as it is."""
    return LossCourse(course.readings, _without(course.changes, number)).fit_at(course.noise)[1]


def _without(changes: tuple[Shift, ...], number: int) -> tuple[Shift, ...]:
    return changes[:number] + changes[number + 1 :]


def _joined(falls: list[tuple[Shift, float]], count: int) -> list[Shift]:
    """So many falls, parted where the gaps between the short ones, given in order, are widest."""
    gaps = [after.place - before.place for (before, _), (after, _) in pairwise(falls)]
    cuts = sorted(int(gap) + 1 for gap in np.argsort(gaps)[len(gaps) - count + 1 :])
    return [_span(falls[start:stop]) for start, stop in pairwise([0, *cuts, len(falls)])]


def _span(falls: list[tuple[Shift, float]]) -> Shift:
    """One fall from where a tenth of these is gone to where nine tenths are."""
    gone = np.cumsum([height for _, height in falls])
    start, stop = (int(np.searchsorted(gone, share * gone[-1])) for share in (0.1, 0.9))
    place = falls[start][0].place
    return Shift("logistic", place, falls[stop][0].place + falls[stop][0].length - place)


def moved(readings: Readings, changes: Sequence[Shift], noise: Noise, rounds: int = 2) -> LossCourse:
    """The changes moved and stretched to where they fit best, the noise refitted in between."""
    course = None
    for _ in range(rounds):
        changes = Residuals(readings, changes, noise).minimised()
        course = LossCourse(readings, changes)
        if course.noise == noise:
            break
        noise = course.noise
    assert course is not None
    return course


class Residuals:
    """White noise left at places and lengths (logarithms) of changes, everything linear fitted."""

    def __init__(self, readings: Readings, changes: Sequence[Shift], noise: Noise):
        self.readings, self.changes = readings, tuple(changes)
        self.whitened = whitening(noise, len(readings))
        self.y = readings.whitened(noise)
        self.decays, self.among = readings.basis.whitened(noise)
        self.start = np.array([part for c in self.changes for part in (c.place, np.log(c.length))])

    def at(self, position: Array) -> tuple[Shift, ...]:
        """The changes at other places and lengths."""
        return tuple(
            Shift(change.shape, float(place), float(np.exp(length)), change.sign)
            for change, place, length in zip(self.changes, position[::2], position[1::2], strict=True)
        )

    def _columns(self, position: Array) -> Array:
        changes = [change.column(self.readings.steps) for change in self.at(position)]
        return self.whitened(np.column_stack(changes))

    def fit(self, position: Array) -> tuple[Array, Array, Array]:
        """What is left, the active columns, and the heights of the changes."""
        own = self._columns(position)
        A, mixed = np.concatenate([self.decays, own], axis=1), own.T @ self.decays
        G = np.block([[self.among, mixed.T], [mixed, own.T @ own]])
        x, _ = least_squares(G, A.T @ self.y, float(self.y @ self.y))
        return self.y - A @ x, A[:, x > 0], x[-len(self.changes) :]

    def slopes(self, position: Array, active: Array, heights: Array) -> Array:
        """How what is left moves with the position: -P dA x, P the projection off the active columns."""
        D = np.empty((len(self.y), len(position)))
        nudges = np.where(np.arange(len(position)) % 2, 1e-3, 1e-3 * np.exp(np.repeat(position[1::2], 2)))
        here = self._columns(position)
        for part, nudge in enumerate(nudges):
            moved = position.copy()
            moved[part] += nudge
            change = self.whitened(self.at(moved)[part // 2].column(self.readings.steps)[:, None])[:, 0]
            D[:, part] = heights[part // 2] * (change - here[:, part // 2]) / nudge
        Q, _ = np.linalg.qr(active)
        return -(D - Q @ (Q.T @ D))

    def minimised(self, rounds: int = 10) -> tuple[Shift, ...]:
        """The changes where the sum of squares is least nearby (Levenberg-Marquardt)."""
        n, count = len(self.readings), len(self.changes)
        low, high = np.zeros(2 * count), np.tile([n - 1.0, np.log(0.75 * n)], count)
        position, damping = np.clip(self.start, low, high), 1e-2
        left, active, heights = self.fit(position)
        for _ in range(rounds):
            J = self.slopes(position, active, heights)
            value, H, g = left @ left, J.T @ J, J.T @ left
            for _ in range(4):
                step = np.linalg.solve(H + np.diag(damping * np.diag(H) + 1e-12 * np.trace(H) + 1e-300), g)
                tried = np.clip(position - np.clip(step, -_longest(position), _longest(position)), low, high)
                found = self.fit(tried)
                if found[0] @ found[0] < value:
                    break
                damping *= 6
            else:
                break
            position, damping = tried, damping / 5
            left, active, heights = found
            if left @ left > (1 - 1e-5) * value:
                break
        return self.at(position)


def _longest(position: Array) -> Array:
    """The longest step: a change by its own length or two readings, its length by a factor of two."""
    most = np.full(len(position), np.log(2.0))
    most[::2] = np.maximum(np.exp(position[1::2]), 2.0)
    return most


def _reshaped(course: LossCourse) -> LossCourse:
    """Each change in the shape that fits best."""
    for number in range(len(course.changes)):
        course = min((course, *other_shapes(course, number)), key=lambda found: found.value)
    return course


def other_shapes(course: LossCourse, number: int) -> list[LossCourse]:
    """The course with one change in each of the other shapes, moved to where it fits."""
    change = course.changes[number]
    return [
        moved(
            course.readings, _replaced(course.changes, number, change.shaped(shape)), course.noise, rounds=1
        )
        for shape in SHAPES
        if shape != change.shape
    ]


def _replaced(changes: tuple[Shift, ...], number: int, change: Shift) -> tuple[Shift, ...]:
    return (*changes[:number], change, *changes[number + 1 :])


def _without_idle(course: LossCourse, least: float) -> LossCourse:
    """Changes taken away that the others can do without, each gaining less than `least` beside them."""
    for number in reversed(range(len(course.changes))):
        rest = _without(course.changes, number)
        without = (
            _reshaped(moved(course.readings, rest, course.noise)) if rest else LossCourse(course.readings)
        )
        if course.gain_over(without) < least:
            return _without_idle(without, least)
    return course
