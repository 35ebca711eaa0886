"""A comparison as it stands: what `summary` counts, shown as a table and as a picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import COLOURS, finished, in_style, panels
from attangent.papers.p1_prefix.head_to_head.run import Run
from attangent.papers.p1_prefix.head_to_head.settings import Comparison
from attangent.papers.p1_prefix.head_to_head.table import summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("task", "entrant", "accuracy", "sd", "seeds", "rate", "parameters", "seconds", "peak_megabytes")


@dataclass(frozen=True, repr=False)
class Standing:
    """`rows` has one entry for each task and entrant: accuracy, its spread, parameters, seconds, memory."""

    rows: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, comparison: Comparison, runs: Sequence[Run]) -> "Standing":
        """The standing of all entrants after these runs."""
        return cls(tuple(summary(comparison, runs)))

    def __repr__(self) -> str:
        best = {task: self._best(task) for task in self._tasks}
        return brief(self, best=", ".join(f"{task}: {name}" for task, name in best.items()))

    def _repr_html_(self) -> str:
        rows = [tuple(row[name] for name in _COLUMNS) for row in self.rows]
        return table_html("Methods compared", [name.replace("_", " ") for name in _COLUMNS], rows)

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw each entrant's accuracy with its spread over seeds, one panel for each task."""
        if not self.rows:
            raise AttangentError("no entrant has been run yet: there is nothing to draw")
        figure, axes = panels(len(self._tasks))
        for panel, task in zip(axes, self._tasks, strict=True):
            own = [row for row in self.rows if row["task"] == task]
            spread = [0.0 if math.isnan(row["sd"]) else row["sd"] for row in own]
            places = range(len(own))
            heights = [row["accuracy"] for row in own]
            panel.errorbar(heights, places, xerr=spread, fmt="o", color=COLOURS[0], capsize=3)
            panel.set_yticks(places, [row["entrant"] for row in own])
            panel.invert_yaxis()
            panel.margins(0.15)
            panel.set(title=task, xlabel="accuracy, with the spread over seeds")
        return finished(figure, path)

    @property
    def _tasks(self) -> list[str]:
        return list(dict.fromkeys(row["task"] for row in self.rows))

    def _best(self, task: str) -> str:
        own = [row for row in self.rows if row["task"] == task]
        return str(max(own, key=lambda row: row["accuracy"])["entrant"])
