"""Draw the figures of findings: inline SVG for the report page, matplotlib figures for notebooks and files.

The page's drawings hold curves, axes and tick labels. Their colours are variables of its style sheet, so that
they suit light and dark pages. Title, axis labels and legend are text of the page, so that they can wrap.
"""

import contextlib
import io
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_whole
from attangent._core.plots import (
    BAD,
    COLOURS,
    FAINT,
    GOOD,
    MIDDLING,
    PAST,
    finished,
    in_style,
    one_panel,
    panels,
    styled,
)
from attangent.audit.causes import HEAVY, by_paper, named, weight_of
from attangent.audit.finding import Figure, Series, Verdict
from attangent.audit.report.axes import Axis, Vector, masked, thin_curve, thin_points
from attangent.audit.results import Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

FIGURES_PER_CLAIM = 2
"""How many figures of a claim `write_figures` writes."""
# Sizes in points; a row holds one name of a figure with named positions.
_WIDTH = 420.0
_HEIGHT = 220.0
_ROW = 26.0
_TEXT = 10.5
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
    """A line of the legend; `kind` is that of a series, or "mark" for a bound next to a name."""

    label: str
    kind: str
    colour: int


def legend(figure: Figure) -> list[Key]:
    """Return the name of each series of the figure and how it is drawn."""
    colours = _colours(figure)
    next_to_names = {"line": "points", "bound": "mark"} if figure.ticks else {}
    return [
        Key(series.label, next_to_names.get(series.kind, series.kind), colours[series.label])
        for series in figure.series
    ]


def draw(figures: Sequence[Figure], prefix: str) -> str | None:
    """Draw one figure measured with several seeds as SVG: the first strong, the others faint.

    Every id in the drawing starts with `prefix`, which must be unique in the page. Returns None if no point
    can be drawn.
    """
    plot = _Plot.of(figures)
    return None if plot is None else inline_svg(_render(plot, figures), prefix, _PAGE_COLOURS)


@in_style
def plot_figures(
    figures: Sequence[Figure], path: str | PathLike[str] | None = None, owner: str = "the finding"
) -> "MatplotlibFigure":
    """Draw figures with matplotlib, one panel per figure, and write them to `path` if one is named."""
    if not figures:
        raise AttangentError(f"{owner} has no figure to draw; its numbers are in `numbers`")
    picture, axes = panels(len(figures), across=2, size=(5.2, 3.4))
    for panel, figure in zip(axes, figures, strict=True):
        _fill_panel(panel, figure)
    return finished(picture, path)


_BAR_COLOURS = {
    "false result": BAD,
    "false step or definition": "#dd8f55",
    "slip, quotation, constant or remark": "#f1cda9",
    Verdict.NOT_REPRODUCED.value: COLOURS[3],
    Verdict.SMALLER.value: "#c3ccd4",
    Verdict.OPEN.value: FAINT,
    Verdict.CRASHED.value: "#22262b",
    Verdict.MEASURED.value: MIDDLING,
    Verdict.HOLDS.value: GOOD,
}


def _bar_of(result: Result) -> str:
    """Return the part of a paper's bar that counts this result."""
    if result.verdict is not Verdict.VIOLATED:
        return result.verdict.value
    weight = weight_of(result)
    if weight == "false result":
        return weight
    return "false step or definition" if weight in HEAVY else "slip, quotation, constant or remark"


@in_style
def plot_verdicts(run: Run, path: str | PathLike[str] | None = None) -> "MatplotlibFigure":
    """Draw the papers' statements by verdict, those that fail by weight, one bar per paper."""
    results = [result for result in run.results() if not result.is_ours]
    if not results:
        raise AttangentError(f"{run.folder} holds no findings yet: there is nothing to draw")
    groups = by_paper(results)
    papers = sorted(groups)
    figure, axes = one_panel((7.4, 1.5 + 0.45 * len(papers)))
    start = [0] * len(papers)
    parts = {paper: [_bar_of(result) for result in groups[paper]] for paper in papers}
    labels = [_two_lines(named(paper), 30) for paper in papers]
    for part, colour in _BAR_COLOURS.items():
        counts = [parts[paper].count(part) for paper in papers]
        if any(counts):
            axes.barh(labels, counts, left=start, color=colour, label=part, height=0.6)
            start = [before + count for before, count in zip(start, counts, strict=True)]
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("statements of the paper")
    figure.legend(loc="outside upper left", ncols=3)
    return finished(figure, path)


@dataclass(frozen=True)
class FigureFile:
    """A file with one figure of a claim."""

    claim: str
    title: str
    path: Path


def write_figures(run: Run, folder: Path) -> list[FigureFile]:
    """Write the first figures of each experiment of the papers to `folder` as SVG files."""
    target = real_folder(folder)
    files = []
    for result in run.results():
        if result.origin.kind == "experiment":
            drawable = [figure for figure in result.deciding.finding.figures if _Plot.of([figure])]
            for number, figure in enumerate(drawable[:FIGURES_PER_CLAIM], 1):
                path = target / f"{result.claim.replace('/', '--')}-{number}.svg"
                svg = io.BytesIO()
                plot_figures([figure]).savefig(svg, format="svg", metadata={"Date": None})
                write_whole(path, svg.getvalue())
                files.append(FigureFile(result.claim, figure.title, path))
    return files


@dataclass(frozen=True)
class _Theme:
    """Colours of the axes, the grid and the series."""

    axis: str
    grid: str
    series: tuple[str, ...]


# Stand-in colours for the page, which `inline_svg` replaces by the variables of its style sheet.
_PAGE = _Theme("#010101", "#020202", tuple(f"#0000a{colour}" for colour in range(len(COLOURS))))
_PAGE_COLOURS = {_PAGE.axis: "var(--axis)", _PAGE.grid: "var(--grid)"} | {
    stand_in: f"var(--series-{colour})" for colour, stand_in in enumerate(_PAGE.series)
}
_HOUSE = _Theme(PAST, FAINT, COLOURS)


@dataclass(frozen=True)
class _Layer:
    """One series of one seed; `slot` is its index among the bars at one position, and their number."""

    series: Series
    colour: str
    faint: bool
    slot: tuple[int, int]

    @property
    def style(self) -> dict[str, Any]:
        depth = _KINDS.index(self.series.kind) + (0 if self.faint else 0.5)
        alpha = 0.3 if self.faint else 1.0
        return {"color": self.colour, "alpha": alpha, "zorder": 10 + depth, "clip_on": False}


@dataclass(frozen=True)
class _Plot:
    """The axes of a figure: numbers on both, or names down the side and values to the right.

    Names stay readable on a narrow screen if they stand below each other.
    """

    x_axis: Axis
    y_axis: Axis
    names: tuple[str, ...]

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> "_Plot | None":
        """Return the axes of one figure measured with several seeds, or None if no point can be drawn."""
        first = figures[0]
        series = [series for figure in figures for series in figure.series]
        positions = Axis.of((curve.x for curve in series), first.log_x)
        values = Axis.of((curve.y for curve in series), first.log_y)
        if positions is None or values is None:
            return None
        if any(curve.kind == "bars" for curve in series):
            values = values.for_bars()
        if first.ticks:
            return cls(values, Axis(len(first.ticks) - 0.5, -0.5, log=False), first.ticks)
        return cls(positions, values, ())

    @property
    def height(self) -> float:
        return 32 + _ROW * len(self.names) if self.names else _HEIGHT

    @property
    def labels(self) -> dict[float, str]:
        """The ticks of the vertical axis."""
        if not self.names:
            return self.y_axis.ticks()
        return {float(index): _two_lines(name) for index, name in enumerate(self.names)}

    def draw(self, axes: "Axes", figures: Sequence[Figure], theme: _Theme) -> None:
        """Draw axes and series, those of the first figure strong and those of the others faint."""
        from matplotlib.ticker import NullLocator

        axes.set_xscale("log" if self.x_axis.log else "linear")
        axes.set_yscale("log" if self.y_axis.log else "linear")
        axes.set_xlim(self.x_axis.low, self.x_axis.high, auto=False)
        axes.set_ylim(self.y_axis.low, self.y_axis.high, auto=False)
        for axis, ticks in ((axes.xaxis, self.x_axis.ticks()), (axes.yaxis, self.labels)):
            axis.set_ticks(list(ticks), labels=list(ticks.values()))
            axis.set_minor_locator(NullLocator())
        axes.grid(visible=False)
        axes.grid(axis="x" if self.names else "y", color=theme.grid, linewidth=0.6)
        for layer in _layers(figures, theme):
            self._add(axes, layer, theme)

    def _add(self, axes: "Axes", layer: _Layer, theme: _Theme) -> None:
        series = layer.series
        x = masked(series.y if self.names else series.x, self.x_axis.log)
        y = series.x if self.names else masked(series.y, self.y_axis.log)
        if series.kind == "bars":
            self._add_bars(axes, layer, x, y, theme)
        elif self.names:
            axes.plot(x, y, **layer.style, **(_MARKS if series.kind == "bound" else _DOTS))
        elif series.kind == "points":
            axes.plot(*thin_points(x, y, self.x_axis, self.y_axis), **layer.style, **_DOTS)
        else:
            dashes: Any = (0, (5, 3)) if series.kind == "bound" else "solid"
            axes.plot(*thin_curve(x, y, self.x_axis), **layer.style, linestyle=dashes, linewidth=1.8)

    def _add_bars(self, axes: "Axes", layer: _Layer, x: Vector, y: Vector, theme: _Theme) -> None:
        """Draw the bars of one series; other seeds get a dot where their bar would end."""
        from matplotlib.transforms import ScaledTranslation

        room = _ROW if self.names else 0.8 * _WIDTH / max(len(x), 1)
        width, shift = _bar(room, layer.slot)
        # Bars are thick lines: their width is in points, so that they do not overlap on any axis.
        move = (0.0, -shift / 72) if self.names else (shift / 72, 0.0)
        moved = axes.transData + ScaledTranslation(*move, axes.figure.dpi_scale_trans)
        if layer.faint:
            dot = {**_DOTS, "color": theme.axis, "markersize": 3.0, "zorder": 20, "clip_on": False}
            axes.plot(x, y, **dot, transform=moved)
        elif self.names:
            axes.hlines(y, self.x_axis.foot, x, **layer.style, linewidth=width, transform=moved)
        else:
            axes.vlines(x, self.y_axis.foot, y, **layer.style, linewidth=width, transform=moved)


def _fill_panel(panel: "Axes", figure: Figure) -> None:
    """Draw a figure with title, axis labels and legend."""
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    plot = _Plot.of([figure])
    if plot is not None:
        plot.draw(panel, [figure], _HOUSE)
    x_label, y_label = (figure.y_label, figure.x_label) if figure.ticks else (figure.x_label, figure.y_label)
    panel.set(title="\n".join(textwrap.wrap(figure.title, 60)), xlabel=x_label, ylabel=y_label)
    styles: dict[str, Any] = {"points": _DOTS, "mark": {**_MARKS, "markersize": 10}}
    styles |= {"bound": {"linestyle": "--"}, "bars": {"linewidth": 6}}
    if len(figure.series) > 1:
        keys = legend(figure)
        handles = [Line2D([], [], color=COLOURS[key.colour], **styles.get(key.kind, {})) for key in keys]
        panel.legend(handles, [key.label for key in keys])
    for text in panel.findobj(Text):
        text.set_parse_math(False)  # pyright: ignore[reportAttributeAccessIssue]


def _render(plot: _Plot, figures: Sequence[Figure]) -> bytes:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as MatplotlibFigure

    with _page_settings():
        canvas = MatplotlibFigure(figsize=(_WIDTH / 72, plot.height / 72), dpi=72)
        canvas.patch.set_visible(False)
        left = _width(plot.labels.values()) + 9
        box = (
            left / _WIDTH,
            21 / plot.height,
            (_WIDTH - left - 14) / _WIDTH,
            (plot.height - 29) / plot.height,
        )
        axes = canvas.add_axes(box, frameon=False)
        axes.tick_params(color=_PAGE.axis, labelcolor=_PAGE.axis, labelsize=_TEXT, width=0.6, length=3)
        plot.draw(axes, figures, _PAGE)
        buffer = io.BytesIO()
        FigureCanvasSVG(canvas).print_svg(buffer, metadata={"Date": None})
    return buffer.getvalue()


@contextlib.contextmanager
def _page_settings() -> Iterator[None]:
    """Use our style whatever the user has set: text stays text, equal figures give equal SVG."""
    import matplotlib

    with styled(), warnings.catch_warnings():
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "attangent",
                "figure.constrained_layout.use": False,
                "text.parse_math": False,
                "font.family": ["DejaVu Sans"],
            }
        )
        warnings.filterwarnings("ignore", message="Glyph")  # the page's font draws the text in the end
        yield


def _layers(figures: Sequence[Figure], theme: _Theme) -> Iterator[_Layer]:
    colours = _colours(figures[0])
    bars = [series.label for series in figures[0].series if series.kind == "bars"]
    for index, figure in enumerate(figures):
        for series in figure.series:
            if series.label in colours:
                slot = (bars.index(series.label) if series.label in bars else 0, len(bars))
                yield _Layer(series, theme.series[colours[series.label]], faint=index > 0, slot=slot)


def _colours(figure: Figure) -> dict[str, int]:
    labels = dict.fromkeys(series.label for series in figure.series)
    return {label: index % len(COLOURS) for index, label in enumerate(labels)}


def _bar(room: float, slot: tuple[int, int]) -> tuple[float, float]:
    """Return the width of a bar and its distance from the centre; `slot` is its index and their number."""
    index, count = slot
    width = min(max(0.7 * room / max(count, 1), 1.5), 14.0)
    return width, (index - (count - 1) / 2) * width


def _width(labels: Iterable[str]) -> float:
    return 0.58 * _TEXT * max((len(line) for label in labels for line in label.split("\n")), default=0)


def _two_lines(name: str, width: int = 24) -> str:
    """Break `name` into at most two lines of `width` letters and drop the rest."""
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    lines = textwrap.wrap(printable, width)
    rest = " …" if len(lines) > 2 else ""
    return "\n".join(lines[:2]) + rest


def inline_svg(svg: bytes, prefix: str, colours: Mapping[str, str]) -> str:
    """Prepare the SVG that matplotlib writes for a page that holds many drawings.

    Metadata, style sheet and fonts go, ids get the prefix, colours are translated and coordinates are rounded
    to a hundredth of a point.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if _local_name(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        _shorten(element)
        for key in list(element.keys()):
            element.set(key, _attribute(key, element.attrib[key], prefix, colours))
    root.attrib = {"viewBox": root.get("viewBox", ""), "class": "plot", "aria-hidden": "true"}
    return ElementTree.tostring(root, encoding="unicode")


def _shorten(element: ElementTree.Element) -> None:
    """Drop namespaces and what draws nothing: ids of groups, rotation by 0, white space."""
    element.tag = _local_name(element.tag)
    element.attrib = {_local_name(key): value for key, value in element.items()}
    if element.tag == "g":
        element.attrib.pop("id", None)
    if element.get("transform", "").startswith("rotate(-0 "):
        element.attrib.pop("transform")
    if element.tag != "text":
        element.text = None
    element.tail = None


def _local_name(qualified: str) -> str:
    return qualified.rpartition("}")[2]


def _attribute(key: str, value: str, prefix: str, colours: Mapping[str, str]) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href":
        return f"#{prefix}-{value.removeprefix('#')}"
    if key == "clip-path":
        return value.replace("#", f"#{prefix}-")
    if key == "style":
        rules = [rule.strip() for rule in value.split(";")]
        retained = ";".join(rule for rule in rules if not rule.startswith("font"))
        return re.sub(r"#[0-9a-f]{6}", lambda colour: colours.get(colour[0], colour[0]), retained)
    if key in ("d", "transform", "x", "y"):
        return re.sub(r"-?\d+\.\d+", lambda number: f"{round(float(number[0]), 2):g}", value)
    return value
