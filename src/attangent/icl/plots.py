"""A picture of a comparison."""

from pathlib import Path
from typing import TYPE_CHECKING

from attangent._errors import AttangentError
from attangent._files import writing

if TYPE_CHECKING:
    from attangent.icl.compare import Comparison

_MOST_PANELS = 6
_ENDINGS = (".png", ".svg", ".pdf")


def plot_comparison(found: "Comparison", path: str | Path) -> None:
    """The predictor's answers against those of the nearest rules, one panel for each."""
    if Path(path).suffix.lower() not in _ENDINGS:
        raise AttangentError(f"the picture is {path}, expected a name ending in {', '.join(_ENDINGS)}")
    from matplotlib.figure import Figure

    names = found.table["rule"].tolist()[:_MOST_PANELS]
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.2 * columns, 3.2 * rows), layout="constrained")
    said = found.answers["predictor"].flatten()
    for panel, name in zip(figure.subplots(rows, columns, squeeze=False).flat, names, strict=False):
        rule = found.answers[name].flatten()
        panel.plot(rule, said, ".", ms=2, alpha=0.4)
        low, high = float(rule.min()), float(rule.max())
        panel.plot([low, high], [low, high], color="black", lw=0.8)
        panel.set(title=f"{name}: distance {found.distance[name]:.2g}", xlabel="rule", ylabel="predictor")
    with writing(path) as temporary:
        figure.savefig(temporary, dpi=120)
