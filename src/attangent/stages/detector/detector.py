"""Stages of a run while it goes on: readings come in, what they settle goes out."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Literal

import pandas as pd

from attangent._core.checks import check_between
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent.stages.detector.group import FEWEST, Group, Stage, examine
from attangent.stages.detector.order import Order, order_of
from attangent.stages.detector.table import summary, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_GROWTH = 1.2
"""Groups are looked at again when their readings have grown by this factor."""
_LOOKS = 5.0
"""Many looks share the false-alarm rate: each takes this part of it."""


@dataclass(frozen=True)
class Event:
    """Something that was settled, and the step it is dated to."""

    name: str
    kind: Literal["onset", "completion"]
    step: float

    def __str__(self) -> str:
        verb = "begins to fall" if self.kind == "onset" else "has fallen"
        return f"{self.name} {verb} at step {self.step:g}"


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """What a set of groups shows: each group with its stages, all stages by their onset, the order."""

    groups: tuple[Group, ...]

    def __repr__(self) -> str:
        return brief(self, groups=[group.name for group in self.groups], stages=len(self.stages))

    def _repr_html_(self) -> str:
        names = ("group", "stage", "onset", "completion", "plateau", "level", "share")
        rows = self.table[list(names)].to_numpy()
        lines = self.summary().splitlines()
        return table_html(f"{len(self.stages)} stages", names, map(tuple, rows), lines)

    def plot(
        self, readings: pd.DataFrame | None = None, path: str | PathLike[str] | None = None
    ) -> "Picture":
        """Draw each group's course and its stages, behind the `readings` where they are given."""
        from attangent.stages.detector.plots import plot_findings

        return plot_findings(self, readings, path)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of all groups, first to last."""
        return tuple(sorted((s for group in self.groups for s in group.stages), key=lambda s: s.onset))

    @cached_property
    def order(self) -> Order:
        """The groups that fell, by where their fall begins, and how sure each place is."""
        return order_of(self.groups)

    @property
    def table(self) -> pd.DataFrame:
        """One row per stage, and one for each group without any."""
        return table(self.groups)

    def summary(self) -> str:
        """A few lines of text."""
        return summary(self.groups, self.order)


def find_stages(
    readings: pd.DataFrame, *, warmup: float = -math.inf, false_alarms: float = 0.05, least: float = 0.05
) -> Findings:
    """Stages of every group of a frame with the columns group, step, loss, steps of a group going up.

    false_alarms: the share of groups without a stage in which one is found all the same; least: falls below
    this share of a group's whole fall are passed over; warmup: readings before this step are left out.

    >>> import numpy as np, pandas as pd
    >>> steps = np.arange(120)
    >>> loss = 1 + 1 / (1 + np.exp((steps - 60) / 4))
    >>> found = find_stages(pd.DataFrame({"group": "a", "step": steps, "loss": loss}))
    >>> [(round(stage.onset), round(stage.completion)) for stage in found.stages]
    [(51, 69)]
    """
    check_between("false_alarms", false_alarms, 1e-6, 0.5)
    check_between("least", least, 0.0, 1.0)
    if not isinstance(readings, pd.DataFrame) or not {"group", "step", "loss"} <= set(readings.columns):
        given = list(getattr(readings, "columns", [])) or type(readings).__name__
        raise AttangentError(f"readings are {given}, expected a frame with the columns group, step, loss")
    parts = readings[readings["step"] >= warmup].groupby("group", sort=False)
    return Findings(
        tuple(examine(str(name), part["step"], part["loss"], false_alarms, least) for name, part in parts)
    )


class StageDetector:
    """Finds the stages of a run while it goes on, from the losses of named groups.

    >>> import math
    >>> detector = StageDetector(["easy", "hard"])
    >>> for step in range(40):
    ...     easy, hard = (1 / (1 + math.exp((step - middle) / 2)) for middle in (10, 25))
    ...     events = detector.update(step, {"easy": easy, "hard": hard})
    >>> detector.order
    ('easy', 'hard')

    Groups are looked at again whenever their readings have grown by a fifth: `update` returns what a look
    settled. `stages`, `order`, `findings` and `summary()` are of all readings so far, worked out when asked
    for. Keywords are those of `find_stages`.
    """

    def __init__(
        self, groups: Iterable[str], *, warmup: float = 0.0, false_alarms: float = 0.05, least: float = 0.05
    ):
        names = tuple(groups)
        if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise AttangentError(f"groups are {names}, expected one or more different names")
        self.warmup = warmup
        self.false_alarms = check_between("false_alarms", false_alarms, 1e-6, 0.5)
        self.least = check_between("least", least, 0.0, 1.0)
        self._steps: dict[str, list[float]] = {name: [] for name in names}
        self._losses: dict[str, list[float]] = {name: [] for name in names}
        self._next_look = dict.fromkeys(names, FEWEST)
        self._said: dict[str, list[Event]] = {name: [] for name in names}
        self._found: tuple[int, Findings] | None = None

    def __repr__(self) -> str:
        return brief(self, groups=list(self._steps), readings=sum(map(len, self._steps.values())))

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw all readings so far with the stages found in them; also to a file, where one is named."""
        from attangent.stages.detector.plots import plot_stages

        return plot_stages(self, path)

    def update(self, step: float, losses: Mapping[str, float]) -> tuple[Event, ...]:
        """Take in what was read at `step`, for all groups or some; returns what this settled."""
        unknown = set(losses) - set(self._steps)
        if unknown:
            raise AttangentError(f"losses name {sorted(unknown)}, the groups are {', '.join(self._steps)}")
        for name, loss in losses.items():
            self._check(name, step, loss)
        for name, loss in losses.items():
            self._steps[name].append(float(step))
            self._losses[name].append(float(loss))
        return tuple(event for name in losses for event in self._look(name))

    def _check(self, name: str, step: float, loss: float) -> None:
        if not isinstance(loss, Real) or not math.isfinite(loss):
            raise AttangentError(f"the loss of {name} at step {step} is {loss}, expected a finite number")
        if (
            not isinstance(step, Real)
            or not math.isfinite(step)
            or (self._steps[name] and step <= self._steps[name][-1])
        ):
            last = self._steps[name][-1] if self._steps[name] else "none"
            raise AttangentError(f"step {step} of {name} comes after step {last}, expected steps that go up")

    def _look(self, name: str) -> list[Event]:
        counted = sum(step >= self.warmup for step in self._steps[name])
        if counted < self._next_look[name]:
            return []
        self._next_look[name] = math.ceil(_GROWTH * counted)
        group = self._examined(name, self.false_alarms / _LOOKS)
        return self._new(name, [event for stage in group.stages for event in _events(stage)])

    def _new(self, name: str, events: list[Event]) -> list[Event]:
        """Those that were not said before, by their number: a later look may date an old one anew."""
        fresh = []
        for kind in ("onset", "completion"):
            said = [event for event in self._said[name] if event.kind == kind]
            fresh += [event for event in events if event.kind == kind][len(said) :]
        self._said[name] += fresh
        return sorted(fresh, key=lambda event: event.step)

    def _examined(self, name: str, false_alarms: float) -> Group:
        steps, losses = self._steps[name], self._losses[name]
        first = sum(step < self.warmup for step in steps)
        return examine(name, steps[first:], losses[first:], false_alarms, self.least)

    @property
    def findings(self) -> Findings:
        """What all readings so far show."""
        count = sum(map(len, self._steps.values()))
        if self._found is None or self._found[0] != count:
            found = Findings(tuple(self._examined(name, self.false_alarms) for name in self._steps))
            self._found = count, found
        return self._found[1]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of all groups, first to last."""
        return self.findings.stages

    @property
    def order(self) -> tuple[str, ...]:
        """The groups that fell, by where their fall begins; `findings.order` says how surely."""
        return self.findings.order.names

    @property
    def readings(self) -> pd.DataFrame:
        """Everything read: group, step, loss."""
        frames = [
            pd.DataFrame({"group": name, "step": steps, "loss": self._losses[name]})
            for name, steps in self._steps.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def summary(self) -> str:
        """A few lines of text: every stage, and the order of the groups."""
        return self.findings.summary()


def _events(stage: Stage) -> list[Event]:
    onset = Event(stage.name, "onset", stage.onset)
    if stage.completion is None:
        return [onset]
    return [onset, Event(stage.name, "completion", stage.completion)]
