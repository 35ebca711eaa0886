"""The curve of size against answers kept, as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attangent._core.plots import FAINT, bars, finished, in_style, one_panel
from attangent.compression.size_search import Attempt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attangent.compression.report import Report


@in_style
def draw_curve(
    attempts: Sequence[Attempt],
    keep: float | None = None,
    path: Path | None = None,
    unfitted: Mapping[int, float] | None = None,
) -> "Figure":
    """The share of answers kept against the size: tokens as they are, fitted, distilled; also to a file."""
    figure, axes = one_panel((6.0, 3.8))
    if unfitted:
        axes.plot(*zip(*sorted(unfitted.items()), strict=True), ".:", color=FAINT, label="tokens as they are")
    by_size = sorted(attempts, key=lambda attempt: attempt.size)
    closed = [attempt for attempt in by_size if not attempt.distilled]
    trained = [attempt for attempt in by_size if attempt.distilled]
    for label, some, marker in (("closed form", closed, "o-"), ("distilled", trained, "s--")):
        if some:
            axes.plot([one.size for one in some], [one.share for one in some], marker, label=label)
    if keep is not None:
        axes.axhline(keep, color=FAINT, linewidth=1.0, label=f"goal {keep:g}")
    axes.set_xscale("log", base=2)
    sizes = sorted({attempt.size for attempt in attempts} | set(unfitted or ()))
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("tokens for each head, in the mean")
    axes.set_ylabel("answers kept" if by_size and by_size[0].asked else "same next token")
    axes.legend()
    return finished(figure, path)


@in_style
def draw_shares(report: "Report") -> "Figure":
    """What the compressed prompt kept, as shares of what the full one does."""
    kept = {"effect on other text": 1 - report.fidelity.ratio}
    kept["same next token"] = report.fidelity.agreement["compressed"]
    if report.own:
        kept = {"answers": report.kept / len(report.own), **kept}
    figure, axes = one_panel((6.0, 1.1 + 0.4 * len(kept)))
    bars(axes, kept, f"share kept with {report.size} of {report.prompt_tokens} tokens")
    axes.set_xlim(0, 1.12)
    return figure
