"""A picture of a comparison."""

from os import PathLike
from typing import TYPE_CHECKING

from attangent._core.plots import PAST, check_picture, finished, in_style, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attangent.icl.compare import Comparison

_MOST_PANELS = 6


@in_style
def plot_comparison(found: "Comparison", path: str | PathLike[str] | None = None) -> "Figure":
    """The predictor's answers against those of the nearest rules, one panel for each."""
    if path is not None:
        check_picture(path)
    names = found.table["rule"].tolist()[:_MOST_PANELS]
    figure, axes = panels(len(names), size=(3.2, 3.2))
    said = found.answers["predictor"].flatten()
    for panel, name in zip(axes, names, strict=True):
        rule = found.answers[name].flatten()
        panel.plot(rule, said, ".", ms=2, alpha=0.4)
        low, high = float(rule.min()), float(rule.max())
        panel.plot([low, high], [low, high], color=PAST, lw=0.8)
        panel.set(title=f"{name}: distance {found.distance[name]:.2g}", xlabel="rule", ylabel="predictor")
    return finished(figure, path)
