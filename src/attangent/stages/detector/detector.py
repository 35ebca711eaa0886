"""Stages of a run: when the loss of each group leaves its plateau, and when its fall is over."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._errors import AttangentError

_MEDIAN_SPREAD = 1.2533
"""The standard error of a median of w readings is this times their standard deviation over sqrt(w)."""
_MOST_READINGS = 200
"""So many of the latest readings say where the plateau is and how noisy it is."""


@dataclass(frozen=True)
class Stage:
    """What is known of one group: a step is None until it was seen."""

    name: str
    plateau: float | None
    """Median of the first readings after warm-up, or the higher level the loss stayed at since."""
    onset: float | None
    completion: float | None
    level: float | None
    """Median of the latest readings."""


@dataclass(frozen=True)
class Event:
    """Something the latest reading settled, and the step it is dated to."""

    name: str
    kind: Literal["onset", "completion"]
    step: float

    def __str__(self) -> str:
        verb = "begins to fall" if self.kind == "onset" else "has fallen"
        return f"{self.name} {verb} at step {self.step:g}"


@dataclass(frozen=True)
class Sensitivity:
    """How a fall is told from noise and drift.

    Levels are medians of `window` readings; whatever is read before step `warmup` is left out. A group's
    plateau is its first level, and after four windows the median of its readings. Its onset is where
    the level has lost the share `drop` of the way from the plateau to the group's floor, and five standard
    errors of a level, for `patience` readings in a row; it is said once there are two windows to tell by. Its
    completion is where the level has gone the share `done` of that way; or, where it levels off above the
    floor, the share `done` of the way to where it stayed for `settle` readings.
    """

    warmup: float = 0.0
    window: int = 5
    patience: int = 2
    drop: float = 0.1
    done: float = 0.9
    settle: int = 20

    def __post_init__(self) -> None:
        for name in ("window", "patience", "settle"):
            if getattr(self, name) < 1:
                raise AttangentError(f"{name} is {getattr(self, name)}, expected at least 1")
        if not 0 < self.drop < self.done < 1:
            raise AttangentError(
                f"drop {self.drop} and done {self.done} are shares of the fall, expected 0 < drop < done < 1"
            )
        if self.settle < self.window:
            raise AttangentError(f"settle {self.settle} is less than the window {self.window}")


class StageDetector:
    """Finds the stages of a run while it goes on, from the losses of named groups.

    >>> detector = StageDetector(["easy", "hard"], window=3)
    >>> for step in range(60):
    ...     easy, hard = max(0.0, 1 - step / 20), min(1.0, max(0.0, 2 - step / 25))
    ...     for event in detector.update(step, {"easy": easy, "hard": hard}):
    ...         print(event)
    easy begins to fall at step 3
    easy has fallen at step 19
    hard begins to fall at step 28
    hard has fallen at step 48
    >>> detector.order
    ('easy', 'hard')

    Keywords are those of `Sensitivity`; `floors` gives the lowest loss a group can reach where it is not 0.
    """

    def __init__(
        self,
        groups: Iterable[str],
        *,
        floors: Mapping[str, float] | None = None,
        sensitivity: Sensitivity | None = None,
        **keywords: float,
    ):
        names = tuple(groups)
        if not names or len(set(names)) < len(names):
            raise AttangentError(f"groups are {names}, expected one or more different names")
        if sensitivity is not None and keywords:
            raise AttangentError("give either a sensitivity or its keywords, not both")
        unknown = set(floors or {}) - set(names)
        if unknown:
            raise AttangentError(f"floors name {sorted(unknown)}, the groups are {', '.join(names)}")
        self.sensitivity = sensitivity or Sensitivity(**keywords)  # type: ignore[arg-type]
        self._groups = {name: _Group(name, self.sensitivity, (floors or {}).get(name, 0.0)) for name in names}

    def update(self, step: float, losses: Mapping[str, float]) -> tuple[Event, ...]:
        """Take in what was read at `step`, for all groups or some; returns what this settled."""
        unknown = set(losses) - set(self._groups)
        if unknown:
            raise AttangentError(f"losses name {sorted(unknown)}, the groups are {', '.join(self._groups)}")
        for name, loss in losses.items():
            self._groups[name].check(step, loss)
        found = [self._groups[name].add(float(step), float(loss)) for name, loss in losses.items()]
        return tuple(event for events in found for event in events)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All groups: those that began to fall by their onset, then the others."""
        stages = [group.stage for group in self._groups.values()]
        return tuple(sorted(stages, key=lambda stage: (_last(stage.onset), _last(stage.completion))))

    @property
    def order(self) -> tuple[str, ...]:
        """The groups that began to fall, first to last."""
        return tuple(stage.name for stage in self.stages if stage.onset is not None)

    @property
    def readings(self) -> pd.DataFrame:
        """Everything read: group, step, loss."""
        return pd.concat([group.frame for group in self._groups.values()], ignore_index=True)

    def summary(self) -> str:
        """One line a group."""
        return "\n".join(_line(stage) for stage in self.stages)


class _Group:
    """The readings of one group; `levels[i]` is the median of the window that ends `i` readings after the
    first full one."""

    def __init__(self, name: str, sensitivity: Sensitivity, floor: float):
        self.name, self.sensitivity, self.floor = name, sensitivity, floor
        self.steps: list[float] = []
        self.losses: list[float] = []
        self.levels: list[float] = []
        self.warmup_readings = 0
        self.plateau = math.nan
        self.onset: float | None = None
        self.completion: float | None = None
        self.low_since: int | None = None

    def check(self, step: float, loss: float) -> None:
        if not math.isfinite(loss):
            raise AttangentError(
                f"the loss of {self.name} at step {step} is {loss}, expected a finite number"
            )
        if self.steps and step <= self.steps[-1]:
            raise AttangentError(f"step {step} of {self.name} comes after step {self.steps[-1]}, steps go up")

    def add(self, step: float, loss: float) -> list[Event]:
        self.steps.append(step)
        self.losses.append(loss)
        if step < self.sensitivity.warmup:
            self.warmup_readings = len(self.steps)
        if len(self.steps) - self.warmup_readings < self.sensitivity.window:
            return []
        self.levels.append(float(np.median(self.losses[-self.sensitivity.window :])))
        return self._look_for_onset() if self.onset is None else self._look_for_completion(self.onset)

    def _look_for_onset(self) -> list[Event]:
        counted = np.array(self.losses[self.warmup_readings :][-_MOST_READINGS:])
        error = _MEDIAN_SPREAD * _noise(counted) / math.sqrt(self.sensitivity.window)
        settled = len(counted) >= 4 * self.sensitivity.window
        self.plateau = max(float(np.median(counted)), -math.inf if settled else self.levels[0])
        if self.levels[-1] >= self.plateau - max(self.sensitivity.drop * self._way, 5 * error):
            self.low_since = None
            return []
        self.low_since = len(self.levels) - 1 if self.low_since is None else self.low_since
        low = len(self.levels) - self.low_since
        if low < self.sensitivity.patience or len(self.levels) <= self.sensitivity.window:
            return []
        self.onset = self._step_of(self.low_since)
        return [Event(self.name, "onset", self.onset), *self._look_for_completion(self.onset)]

    def _look_for_completion(self, onset: float) -> list[Event]:
        target = self._target()
        if self.completion is not None or target is None or self.levels[-1] > target:
            return []
        first = next(place for place, level in enumerate(self.levels) if level <= target)
        self.completion = max(self._step_of(first), onset)
        return [Event(self.name, "completion", self.completion)]

    def _target(self) -> float | None:
        """The level at which the fall is over: near the floor, or near where it has settled; else None."""
        target = self.plateau - self.sensitivity.done * self._way
        if self.levels[-1] <= target:
            return target
        before, lately = self.levels[: -self.sensitivity.settle], self.levels[-self.sensitivity.settle :]
        lowest = min(self.levels)
        if not before or min(before) - min(lately) > self.sensitivity.drop * (self.plateau - lowest):
            return None
        return self.plateau - self.sensitivity.done * (self.plateau - lowest)

    @property
    def _way(self) -> float:
        return max(self.plateau - self.floor, 0.0)

    def _step_of(self, place: int) -> float:
        """The step in the middle of the window of a level."""
        return self.steps[self.warmup_readings + place + self.sensitivity.window // 2]

    @property
    def stage(self) -> Stage:
        plateau, level = (self.plateau, self.levels[-1]) if self.levels else (None, None)
        return Stage(self.name, plateau, self.onset, self.completion, level)

    @property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame({"group": self.name, "step": self.steps, "loss": self.losses})


def _noise(readings: NDArray[np.float64]) -> float:
    """Standard deviation of one reading, from the median deviation of differences: blind to a trend."""
    steps = np.diff(readings)
    return float(1.4826 * np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2) if len(steps) else 0.0


def _last(step: float | None) -> float:
    return float("inf") if step is None else step


def _line(stage: Stage) -> str:
    if stage.plateau is None:
        return f"{stage.name}: too few readings"
    if stage.onset is None:
        return f"{stage.name}: on its plateau of {stage.plateau:.4g}"
    end = "still falling" if stage.completion is None else f"fallen at step {stage.completion:g}"
    return (
        f"{stage.name}: falls from {stage.plateau:.4g} at step {stage.onset:g}, {end}, now {stage.level:.4g}"
    )
