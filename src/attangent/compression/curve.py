"""The curve of size against answers kept, as a picture."""

from collections.abc import Sequence
from pathlib import Path

from attangent._files import writing
from attangent.compression.goal import Attempt


def draw_curve(attempts: Sequence[Attempt], keep: float, path: Path) -> None:
    """Write a PNG of the share of answers kept against the size, the closed form and distilled apart."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    by_size = sorted(attempts, key=lambda attempt: attempt.size)
    closed = [attempt for attempt in by_size if not attempt.distilled]
    trained = [attempt for attempt in by_size if attempt.distilled]
    for label, some, marker in (("closed form", closed, "o-"), ("distilled", trained, "s--")):
        if some:
            axes.plot([one.size for one in some], [one.share for one in some], marker, label=label)
    axes.axhline(keep, color="grey", linewidth=0.8, label=f"goal {keep:g}")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("tokens for each head, in the mean")
    axes.set_ylabel("answers kept" if closed and closed[0].asked else "same next token")
    axes.legend()
    with writing(path) as part:
        figure.savefig(part, format="png", dpi=120)
