"""One way to draw the figures of claims."""

from typing import Literal

from attangent.audit import Figure, Series


def plot(
    title: str, axes: tuple[str, str], *series: Series, log: Literal["", "x", "y", "xy"] = "xy"
) -> Figure:
    """Return a figure of these series, with logarithmic axes by default."""
    return Figure(title, *axes, series, log_x="x" in log, log_y="y" in log)
