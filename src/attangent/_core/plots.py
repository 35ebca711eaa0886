"""Plots in one style: figures that notebooks show, written to files by their extension."""

import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attangent._core.errors import AttangentError
from attangent._core.files import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Draw = TypeVar("_Draw", bound=Callable[..., Any])

STYLE = Path(__file__).with_name("attangent.mplstyle")
ENDINGS = (".png", ".svg", ".pdf")
COLOURS = ("#1f66b5", "#c4560a", "#0b8467", "#9a3a91", "#7d6a00", "#56606d")
"""The colours of the style sheet, for lines drawn outside its cycle."""
PAST = "#33373d"
FAINT = "#b9b4aa"
GOOD, MIDDLING, BAD = COLOURS[2], COLOURS[0], COLOURS[1]


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Use matplotlib's defaults and our style sheet, and restore the user's settings afterwards."""
    import matplotlib
    import matplotlib.style

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.style.use(STYLE)
        yield


def in_style(draw: _Draw) -> _Draw:
    """Decorate a drawing function so that it runs with our style sheet."""

    @functools.wraps(draw)
    def drawn(*args: Any, **named: Any) -> Any:
        with styled():
            return draw(*args, **named)

    return cast(_Draw, drawn)


def check_picture(path: str | PathLike[str]) -> Path:
    """Check that a path has the extension of an image file."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise AttangentError(f"cannot write a plot to {path}, expected a name ending in {', '.join(ENDINGS)}")
    return Path(path)


def panels(count: int, across: int = 3, size: tuple[float, float] = (4.2, 3.0)) -> "tuple[Figure, list[Any]]":
    """Return a figure with `count` axes, at most `across` per row, each of `size` inches."""
    columns = min(count, across)
    rows = -(-count // columns)
    figure = _styled_figure()(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, axes[:count]


def one_panel(size: tuple[float, float] = (6.4, 3.8)) -> "tuple[Figure, Any]":
    """Return a figure with one set of axes."""
    figure, (axes,) = panels(1, size=size)
    return figure, axes


def bars(axes: Any, values: dict[str, float], label: str, best: str | None = None) -> None:
    """Draw labelled horizontal bars, the first on top; `best` is coloured."""
    rows = list(range(len(values)))
    colours = [GOOD if name == best else COLOURS[0] for name in values]
    drawn = axes.barh(rows, list(values.values()), color=colours, height=0.62)
    axes.bar_label(drawn, fmt="%.3g", padding=3, fontsize=8)
    axes.set_yticks(rows, list(values))
    axes.invert_yaxis()
    axes.margins(x=0.14)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.set_xlabel(label)


def finished(figure: "Figure", path: str | PathLike[str] | None) -> "Figure":
    """Return the figure; if a path is given, also write it there atomically."""
    if path is not None:
        file = check_picture(path)
        with writing(file) as temporary:
            figure.savefig(temporary)
    return figure


@cache
def _styled_figure() -> Any:
    from matplotlib.figure import Figure

    class StyledFigure(Figure):
        """A figure that keeps its style when drawn later and that notebooks show without pyplot."""

        def savefig(self, *args: Any, **named: Any) -> None:
            with styled():
                super().savefig(*args, **named)

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return StyledFigure
