"""The forecast of one target, with what to expect of it in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import pandas as pd

from attangent._core.display import brief, table_html, times_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from attangent.forecast.pipeline.choose import Choice


@dataclass(frozen=True, repr=False)
class Outlook:
    """The forecast of one target.

    `values` has the column `forecast` and for each level `lower_80`, `upper_80`. `expected` was measured on
    the last fold, which neither fitted nor chose the model: mae, rmse, the mae of persistence there, and the
    coverage of the intervals, which were calibrated anew as the fold went on. It is empty for series too
    short to hold anything out. `choice` holds the trials of models that look at windows.
    """

    target: str
    model: str
    why: str
    values: pd.DataFrame
    expected: dict[str, float]
    choice: "Choice | None" = None

    def __repr__(self) -> str:
        return brief(self, target=self.target, model=self.model, steps=len(self.values))

    def _repr_html_(self) -> str:
        columns = ["time", *map(str, self.values.columns)]
        times = times_of(self.values.index)
        rows = [(time, *row) for time, row in zip(times, self.values.to_numpy(), strict=True)]
        title = f"Forecast of {self.target} by {self.model}"
        return table_html(title, columns, rows, [self.why, self.sentence(), self.warning()])

    def plot(self, past: "pd.Series | None" = None, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw the forecast and its intervals, behind the `past` where it is given; also to a file."""
        from attangent.forecast.pipeline.plot import plot_outlook

        return plot_outlook(self, past, path)

    @property
    def skill(self) -> float:
        """1 - error / error of repeating the last value on what was held out; 0 where that is unknown."""
        usual = self.expected.get("mae of persistence", 0.0)
        return 1 - self.expected["mae"] / usual if usual > 0 else 0.0

    def sentence(self) -> str:
        """The expected error in words."""
        if not self.expected:
            return (
                "the series is too short to say what error to expect; the intervals are wide for that reason"
            )
        compared = ""
        if self.expected["mae of persistence"] > 0:
            more = "less" if self.skill >= 0 else "more"
            compared = f", {abs(self.skill):.0%} {more} than repeating the last value"
        return (
            f"expect a mean absolute error of {self.expected['mae']:.4g} (root mean square "
            f"{self.expected['rmse']:.4g}){compared}; "
            f"measured on the last {self.expected['held out']:.0f} times"
        )

    def warning(self) -> str:
        """What to beware of, empty where nothing is: a model that did worse than repeating the last value."""
        if self.skill > -0.05 or self.model == "persistence":
            return ""
        return (
            f"WARNING: on the last {self.expected['held out']:.0f} times {self.model} had {-self.skill:.0%} "
            "more error than repeating the last value; compare with --model persistence before you rely on it"
        )


def tidy(outlooks: Sequence[Outlook]) -> pd.DataFrame:
    """All outlooks in one frame: target, time, forecast and the ends of the intervals."""
    parts = [outlook.values.rename_axis("time").reset_index() for outlook in outlooks]
    for part, outlook in zip(parts, outlooks, strict=True):
        part.insert(0, "target", outlook.target)
    return pd.concat(parts, ignore_index=True)
