"""One way to draw the figures of claims."""

from collections.abc import Mapping
from typing import Literal

from attangent.audit import Figure, Series


def plot(
    title: str, axes: tuple[str, str], *series: Series, log: Literal["", "x", "y", "xy"] = "xy"
) -> Figure:
    """Return a figure of these series, with logarithmic axes by default."""
    return Figure(title, *axes, series, log_x="x" in log, log_y="y" in log)


def bars(title: str, y_label: str, heights: Mapping[str, float]) -> Figure:
    """Return a figure with one bar per name."""
    series = Series.of(y_label.removeprefix("test "), range(len(heights)), list(heights.values()), "bars")
    return Figure(title, "", y_label, (series,), ticks=tuple(heights))
