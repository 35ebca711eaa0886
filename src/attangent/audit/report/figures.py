"""Figures of findings as inline SVG.

The drawing holds curves, axes and tick labels; its colours are variables of the page's style sheet, so that
it serves light and dark pages. Title, axis labels and legend are text of the page, where they can wrap.
"""

import contextlib
import io
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attangent._core.plots import styled
from attangent.audit.finding import Figure, Series
from attangent.audit.report.axes import Axis, Vector, masked, thin_curve, thin_points
from attangent.audit.report.svg import inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = 6
_WIDTH, _HEIGHT, _ROW, _TEXT = 420.0, 220.0, 26.0, 10.5  # points; a row holds one name of a named figure
_AXIS, _GRID = "#010101", "#020202"
_SERIES = tuple(f"#0000a{colour}" for colour in range(COLOURS))
_PAGE_COLOURS = {_AXIS: "var(--axis)", _GRID: "var(--grid)"} | {
    stand_in: f"var(--series-{colour})" for colour, stand_in in enumerate(_SERIES)
}
_KINDS = ("bars", "points", "line", "bound")  # from the lowest to the topmost
_DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4.4, "markeredgewidth": 0}
_MARKS: dict[str, Any] = {
    "linestyle": "none",
    "marker": "|",
    "markersize": 0.85 * _ROW,
    "markeredgewidth": 1.8,
}


@dataclass(frozen=True)
class Key:
    """A line of the legend; `kind` is that of a series, or "mark" for a bound beside a name."""

    label: str
    kind: str
    colour: int


def legend(figure: Figure) -> list[Key]:
    """What each series of the figure is called and how it is drawn."""
    colours = _colours(figure)
    beside_names = {"line": "points", "bound": "mark"} if figure.ticks else {}
    return [
        Key(series.label, beside_names.get(series.kind, series.kind), colours[series.label])
        for series in figure.series
    ]


def draw(figures: Sequence[Figure], prefix: str) -> str | None:
    """One figure measured with several seeds as SVG: the first strong, the same series of others faint.

    Every id within starts with `prefix`, which is to be unique in the page. None where no point can be drawn.
    """
    first = figures[0]
    series = [series for figure in figures for series in figure.series]
    x_axis = Axis.of((part.x for part in series), first.log_x)
    y_axis = Axis.of((part.y for part in series), first.log_y)
    if x_axis is None or y_axis is None:
        return None
    if any(part.kind == "bars" for part in series):
        y_axis = y_axis.for_bars()
    plot = _Named(first.ticks, y_axis) if first.ticks else _Plain(x_axis, y_axis)
    return inline(_render(plot, figures), prefix, _PAGE_COLOURS)


@dataclass(frozen=True)
class _Layer:
    """One series of one seed; `slot` is its place among the bars that share a position, and their number."""

    series: Series
    colour: str
    faint: bool
    slot: tuple[int, int]

    @property
    def style(self) -> dict[str, Any]:
        depth = _KINDS.index(self.series.kind) + (0 if self.faint else 0.5)
        return {
            "color": self.colour,
            "alpha": 0.3 if self.faint else 1.0,
            "zorder": 10 + depth,
            "clip_on": False,
        }

    @property
    def dot(self) -> dict[str, Any]:
        """For the seeds that have no bar of their own: a dot at the end of theirs."""
        return {**_DOTS, "color": _AXIS, "markersize": 3.0, "zorder": 20, "clip_on": False}


@dataclass(frozen=True)
class _Plain:
    """Numbers on both axes, the measured value upward."""

    x_axis: Axis
    y_axis: Axis

    height = _HEIGHT

    def prepare(self, axes: "Axes") -> None:
        ticks = self.y_axis.ticks()
        _place(axes, _width(ticks.values()), self.height)
        _set_x(axes, self.x_axis, self.x_axis.ticks())
        _set_y(axes, self.y_axis, ticks)
        axes.grid(axis="y", color=_GRID, linewidth=0.6)

    def add(self, axes: "Axes", layer: _Layer) -> None:
        kind, style = layer.series.kind, layer.style
        x, y = masked(layer.series.x, self.x_axis.log), masked(layer.series.y, self.y_axis.log)
        if kind == "bars":
            self._add_bars(axes, layer, x, y)
        elif kind == "points":
            axes.plot(*thin_points(x, y, self.x_axis, self.y_axis), **style, **_DOTS)
        else:
            dashes: Any = (0, (5, 3)) if kind == "bound" else "solid"
            axes.plot(*thin_curve(x, y, self.x_axis), **style, linestyle=dashes, linewidth=1.8)

    def _add_bars(self, axes: "Axes", layer: _Layer, x: Vector, y: Vector) -> None:
        width, shift = _bar(0.8 * _WIDTH / max(len(x), 1), layer.slot)
        moved = _moved(axes, shift, 0.0)
        if layer.faint:
            axes.plot(x, y, **layer.dot, transform=moved)
        else:
            axes.vlines(x, self.y_axis.foot, y, **layer.style, linewidth=width, transform=moved)


@dataclass(frozen=True)
class _Named:
    """Names down the side, the measured value to the right: names stay readable on a narrow screen."""

    names: tuple[str, ...]
    axis: Axis

    @property
    def height(self) -> float:
        return 32 + _ROW * len(self.names)

    def prepare(self, axes: "Axes") -> None:
        names = {float(place): _two_lines(name) for place, name in enumerate(self.names)}
        _place(axes, _width(names.values()), self.height)
        _set_x(axes, self.axis, self.axis.ticks())
        _set_y(axes, Axis(len(names) - 0.5, -0.5, log=False), names)
        axes.grid(axis="x", color=_GRID, linewidth=0.6)

    def add(self, axes: "Axes", layer: _Layer) -> None:
        place, value = layer.series.x, masked(layer.series.y, self.axis.log)
        if layer.series.kind == "bars":
            self._add_bars(axes, layer, place, value)
        else:
            axes.plot(value, place, **layer.style, **(_MARKS if layer.series.kind == "bound" else _DOTS))

    def _add_bars(self, axes: "Axes", layer: _Layer, place: Vector, value: Vector) -> None:
        width, shift = _bar(_ROW, layer.slot)
        moved = _moved(axes, 0.0, -shift)
        if layer.faint:
            axes.plot(value, place, **layer.dot, transform=moved)
        else:
            axes.hlines(place, self.axis.foot, value, **layer.style, linewidth=width, transform=moved)


def _render(plot: _Plain | _Named, figures: Sequence[Figure]) -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with _own_settings():
        canvas = Canvas(figsize=(_WIDTH / 72, plot.height / 72), dpi=72)
        canvas.patch.set_visible(False)
        axes = canvas.add_axes((0, 0, 1, 1), frameon=False)
        plot.prepare(axes)
        for layer in _layers(figures):
            plot.add(axes, layer)
        buffer = io.BytesIO()
        FigureCanvasSVG(canvas).print_svg(buffer, metadata={"Date": None})
    return buffer.getvalue()


@contextlib.contextmanager
def _own_settings() -> Iterator[None]:
    """Our style, whatever the user has set: text stays text, equal figures give equal SVG."""
    import matplotlib

    with styled(), warnings.catch_warnings():
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "attangent"})
        matplotlib.rcParams.update({"figure.constrained_layout.use": False, "axes.grid": False})
        matplotlib.rcParams.update({"text.parse_math": False, "font.family": ["DejaVu Sans"]})
        warnings.filterwarnings("ignore", message="Glyph")  # the page's font draws the text in the end
        yield


def _layers(figures: Sequence[Figure]) -> Iterator[_Layer]:
    colours = _colours(figures[0])
    bars = [series.label for series in figures[0].series if series.kind == "bars"]
    for place, figure in enumerate(figures):
        for series in figure.series:
            if series.label in colours:
                slot = (bars.index(series.label) if series.label in bars else 0, len(bars))
                yield _Layer(series, _SERIES[colours[series.label]], faint=place > 0, slot=slot)


def _colours(figure: Figure) -> dict[str, int]:
    labels = dict.fromkeys(series.label for series in figure.series)
    return {label: place % COLOURS for place, label in enumerate(labels)}


def _bar(room: float, slot: tuple[int, int]) -> tuple[float, float]:
    """Width of a bar and its distance from the middle of its place; `slot` says which of how many it is."""
    place, count = slot
    width = min(max(0.7 * room / max(count, 1), 1.5), 14.0)
    return width, (place - (count - 1) / 2) * width


def _moved(axes: "Axes", right: float, up: float) -> Any:
    from matplotlib.transforms import ScaledTranslation

    return axes.transData + ScaledTranslation(right / 72, up / 72, axes.figure.dpi_scale_trans)


def _place(axes: "Axes", labels: float, height: float) -> None:
    """Leave room for `labels` points of text on the left and one line of it below."""
    left, right, top, bottom = labels + 9, 14.0, 8.0, 21.0
    box = left, bottom, _WIDTH - left - right, height - top - bottom
    axes.set_position((box[0] / _WIDTH, box[1] / height, box[2] / _WIDTH, box[3] / height))


def _width(labels: Iterable[str]) -> float:
    return 0.58 * _TEXT * max((len(line) for label in labels for line in label.split("\n")), default=0)


def _set_x(axes: "Axes", axis: Axis, ticks: dict[float, str]) -> None:
    axes.set_xscale("log" if axis.log else "linear")
    axes.set_xlim(axis.low, axis.high, auto=False)
    _set_ticks(axes.xaxis, ticks)


def _set_y(axes: "Axes", axis: Axis, ticks: dict[float, str]) -> None:
    axes.set_yscale("log" if axis.log else "linear")
    axes.set_ylim(axis.low, axis.high, auto=False)
    _set_ticks(axes.yaxis, ticks)


def _set_ticks(axis: Any, ticks: dict[float, str]) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_ticks(list(ticks), labels=list(ticks.values()))
    axis.set_minor_locator(NullLocator())
    axis.set_tick_params(color=_AXIS, labelcolor=_AXIS, labelsize=_TEXT, width=0.6, length=3)


def _two_lines(name: str, width: int = 24) -> str:
    """`name` on at most two lines of `width` letters, the rest left out."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    lines = textwrap.wrap(printable, width)
    rest = " …" if len(lines) > 2 else ""
    return "\n".join(lines[:2]) + rest
