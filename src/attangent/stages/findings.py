"""Findings on a set of groups: stages, their order, a table, a summary and a figure."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import erf, sqrt
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd

from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import COLOURS, PAST, check_picture, finished, in_style, panels
from attangent.stages.group import FEWEST, Group, Interval, Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    *("group", "stage", "onset", "onset_low", "onset_high"),
    *("completion", "completion_low", "completion_high", "plateau", "level", "share"),
    *("startup_share", "noise", "correlation", "readings"),
)


@dataclass(frozen=True)
class GroupOrder:
    """Groups by the step at which they begin to fall.

    Attributes:
        names: The groups that fall, first to last.
        certainty: Probability that each group falls before the next, from the standard errors of their
            onsets taken as normal and independent: .5 for two groups that both fall in the start-up.
    """

    names: tuple[str, ...]
    certainty: tuple[float, ...]

    @classmethod
    def of(cls, groups: Iterable[Group]) -> "GroupOrder":
        """Order the groups that fall."""
        begins = [(group.begins, group.name) for group in groups if group.begins is not None]
        begins.sort(key=lambda pair: pair[0][0])
        certainty = [_before(first, second) for (first, _), (second, _) in pairwise(begins)]
        return cls(tuple(name for _, name in begins), tuple(certainty))

    def __str__(self) -> str:
        if not self.names:
            return "no group falls"
        later = [f" < {name} ({sure:.0%})" for name, sure in zip(self.names[1:], self.certainty, strict=True)]
        return self.names[0] + "".join(later)


def _before(first: Interval, second: Interval) -> float:
    """Return the probability that one onset precedes another, each given with its standard error."""
    error = sqrt(first[1] ** 2 + second[1] ** 2)
    if error == 0:
        return 0.5 if first[0] == second[0] else 1.0
    return 0.5 * (1 + erf((second[0] - first[0]) / (error * sqrt(2))))


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """The stages of a set of groups.

    Attributes:
        groups: Each group with its stages and its fitted curve.

    Example:
        >>> Findings(()).stages
        ()
    """

    groups: tuple[Group, ...]

    def __repr__(self) -> str:
        return brief(self, groups=[group.name for group in self.groups], stages=len(self.stages))

    def _repr_html_(self) -> str:
        names = ("group", "stage", "onset", "completion", "plateau", "level", "share")
        rows = self.table[list(names)].to_numpy()
        lines = self.summary().splitlines()
        return table_html(f"{len(self.stages)} stages", names, map(tuple, rows), lines)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of all groups by onset."""
        return tuple(sorted((s for group in self.groups for s in group.stages), key=lambda s: s.onset))

    @cached_property
    def order(self) -> GroupOrder:
        """The groups that fell, by the step at which they begin to fall, with probabilities."""
        return GroupOrder.of(self.groups)

    @property
    def table(self) -> pd.DataFrame:
        """One row per stage, numbered from 1 within its group; stage 0 for a group without any."""
        rows = [row for group in self.groups for row in _rows(group)]
        return pd.DataFrame(rows, columns=pd.Index(COLUMNS))

    def summary(self) -> str:
        """Describe every stage, or a group without any, in one line, and the order of several groups.

        Returns:
            Lines of text.
        """
        lines = [line for group in self.groups for line in _lines(group)]
        return "\n".join([*lines, f"order: {self.order}"] if len(self.order.names) > 1 else lines)

    @in_style
    def plot(self, readings: pd.DataFrame | None = None, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw one panel per group: readings, fitted curve, onsets and completions with intervals.

        Args:
            readings: Readings to draw, with the columns group, step and loss.
            path: File to write the figure to (.png, .svg or .pdf).

        Returns:
            The figure.

        Raises:
            AttangentError: If there are no readings.
        """
        if path is not None:
            check_picture(path)
        if (readings is not None and readings.empty) or not self.groups:
            raise AttangentError("there are no readings yet: update the detector before plotting")
        figure, axes = panels(len(self.groups))
        for number, (panel, group) in enumerate(zip(axes, self.groups, strict=True)):
            rows = None if readings is None else readings.query("group == @group.name")
            _draw(panel, group, rows, COLOURS[number % len(COLOURS)])
        return finished(figure, path)


def _rows(group: Group) -> list[dict[str, object]]:
    """Return the attributes of a group and of each stage by name; `COLUMNS` says which ones are shown."""
    common = {**vars(group), "group": group.name, "startup_share": group.startup}
    if not group.stages:
        return [{**common, "stage": 0}]
    rows = []
    for number, stage in enumerate(group.stages, 1):
        ends: dict[str, object] = dict(zip(("onset_low", "onset_high"), stage.onset_interval, strict=True))
        if stage.completion_interval is not None:
            ends |= dict(zip(("completion_low", "completion_high"), stage.completion_interval, strict=True))
        rows.append({**common, **vars(stage), **ends, "stage": number})
    return rows


def _lines(group: Group) -> list[str]:
    if group.level is None:
        return [f"{group.name}: {group.readings} readings are too few, at least {FEWEST} are needed"]
    if group.stages:
        return [_line(stage) for stage in group.stages]
    if group.startup >= 0.5:
        return [f"{group.name}: a smooth decay from the start, now {group.level:.4g}; no stage"]
    return [f"{group.name}: on its plateau of {group.level:.4g}; no stage"]


def _line(stage: Stage) -> str:
    low, high = stage.onset_interval
    end = "still falling" if stage.completion is None else f"fallen at step {stage.completion:.4g}"
    return (
        f"{stage.name}: falls from {stage.plateau:.4g} at step {stage.onset:.4g} ({low:.4g} to {high:.4g}), "
        f"{end}, to {stage.level:.4g}: {stage.share:.0%} of its fall"
    )


def _draw(panel: Any, group: Group, readings: pd.DataFrame | None, colour: str) -> None:
    if readings is not None:
        panel.plot(readings["step"], readings["loss"], color=colour, alpha=0.4, lw=1)
    panel.plot(group.steps, group.mean, color=colour)
    for stage in group.stages:
        panel.axvspan(*stage.onset_interval, color=PAST, alpha=0.15, lw=0)
        panel.axvline(stage.onset, color=PAST, ls="--", lw=0.8)
        if stage.completion is not None and stage.completion_interval is not None:
            panel.axvspan(*stage.completion_interval, color=PAST, alpha=0.08, lw=0)
            panel.axvline(stage.completion, color=PAST, ls="-", lw=0.8)
    title = f"{group.name}: {len(group.stages)} stage{'s' * (len(group.stages) != 1)}"
    panel.set(title=title, xlabel="step", ylabel="loss")
