"""The tests of `report/pictures.py`."""

import math
import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attangent.audit import Conclusion, Figure, Finding, Series
from attangent.audit.report.figures import Key, draw, inline_svg, legend, plot_figures, write_figures
from attangent.audit.report.markdown import write_markdown
from attangent.audit.results import Run
from attangent.audit.storing import FindingRecord, Origin
from tests.audit.examples import HOSTILE, bars, curves


def drawing(*figures: Figure, prefix: str = "p") -> ElementTree.Element:
    svg = draw(figures, prefix)
    assert svg is not None
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


def styles(root: ElementTree.Element, wanted: str) -> list[str]:
    return [style for element in root.iter() if wanted in (style := element.get("style", ""))]


def line(x, y, **options) -> Figure:
    return Figure("title", "x", "y", (Series.of("a", x, y),), **options)


def test_equal_figures_give_equal_drawings_whatever_the_user_has_set():
    first = draw([curves(0), curves(1)], "this") or ""
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "text.usetex": True}):
        assert draw([curves(0), curves(1)], "this") == first
        assert matplotlib.rcParams["text.usetex"] is True
    assert draw([curves(0), curves(1)], "that") == first.replace("this-", "that-")


def test_ids_of_two_drawings_do_not_meet():
    ids = [
        re.findall(r'id="([^"]+)"', draw([figure], prefix) or "")
        for figure, prefix in ((curves(), "a"), (curves(), "b"))
    ]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])


def test_the_first_seed_is_strong_and_the_others_are_faint():
    alone, three = drawing(curves(0)), drawing(curves(0), curves(1), curves(2))
    assert not styles(alone, "opacity: 0.3")
    assert len(styles(three, "var(--series-0)")) == 3 * len(styles(alone, "var(--series-0)"))
    faint = styles(three, "stroke-opacity: 0.3")
    assert len([style for style in faint if "var(--series-0)" in style]) == 2


def test_a_series_that_only_another_seed_has_is_left_out():
    other = Figure("title", "x", "y", (*line([0, 1], [0, 1]).series, Series.of("b", [0, 1], [1, 0])))
    assert not styles(drawing(line([0, 1], [0, 1]), other), "var(--series-1)")


def test_bounds_are_dashed_and_points_have_no_line():
    root = drawing(curves())
    dashed = styles(root, "stroke-dasharray")
    assert len(dashed) == 1
    assert "var(--series-1)" in dashed[0]
    points = [use for use in root.iter("use") if "var(--series-2)" in use.get("style", "")]
    assert len(points) == 20
    paths = [path for path in root.iter("path") if "stroke: var(--series-2)" in path.get("style", "")]
    assert not any(len(re.findall("L", path.get("d", ""))) > 1 for path in paths)


def test_colours_belong_to_the_page():
    for figure in (curves(), bars()):
        assert not re.search(r"#[0-9a-f]{6}", draw([figure], "p") or "#000000")


def test_a_logarithmic_axis_spaces_decades_evenly():
    root = drawing(line([1, 2, 3], [1e-8, 1e-4, 1], log_y=True))
    path = next(path for path in root.iter("path") if "var(--series-0)" in path.get("style", ""))
    heights = [float(pair.split()[1]) for pair in re.findall(r"[ML] ([\d.]+ [\d.]+)", path.get("d", ""))]
    assert heights[0] - heights[-1] > 150
    assert heights[1] == pytest.approx((heights[0] + heights[2]) / 2, abs=0.02)
    assert "10⁻⁸" in texts(root)


def test_named_places_lie_side_by_side_with_their_bars():
    root = drawing(bars(("first part", "second part")))
    assert {"first part", "second part"} <= set(texts(root))
    thick = [path for path in root.iter("path") if "var(--series-0)" in path.get("style", "")]
    lengths = []
    for path in thick:
        left, right = (float(x) for x, _ in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", "")))
        lengths.append(right - left)
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=1e-3)


def test_bars_of_several_series_do_not_cover_each_other():
    places = [0.0, 1.0]
    figure = Figure(
        "t", "x", "y", tuple(Series.of(name, places, [1.0, 2.0], "bars") for name in "ab"), ticks=("p", "q")
    )
    root = drawing(figure, figure)
    heights = {
        name: {
            re.findall(r"[\d.]+ ([\d.]+)", path.get("d", ""))[0]
            for path in root.iter("path")
            if name in path.get("style", "")
        }
        for name in ("var(--series-0)", "var(--series-1)")
    }
    assert not heights["var(--series-0)"] & heights["var(--series-1)"]
    assert draw([Figure("t", "x", "y", figure.series)], "p") is not None


def test_long_names_take_two_lines():
    root = drawing(bars(("a name that is far longer than two lines of the figure can hold at all", "b")))
    assert "a name that is far" in texts(root)
    assert "longer than two lines of …" in texts(root)


@pytest.mark.parametrize("name", [HOSTILE, "$\\frac{", "a\x00\x1b\ud800b", "日本 😀", "$x$ costs $5", ""])
def test_names_are_text_and_nothing_else(name):
    root = drawing(bars((name, "second")))
    assert {element.tag for element in root.iter()} <= {
        "svg",
        "g",
        "defs",
        "path",
        "use",
        "text",
        "clipPath",
        "rect",
    }
    shown = "".join(texts(root)).replace("\n", "")
    assert name[:4].isprintable() is False or "".join(name[:8].split()) in "".join(shown.split())


def test_the_legend_says_how_each_series_is_drawn():
    assert legend(curves()) == [
        Key("trained", "line", 0),
        Key("bound", "bound", 1),
        Key("predicted", "points", 2),
    ]
    assert legend(bars()) == [Key("measured", "bars", 0), Key("bound", "mark", 1)]
    many = Figure("t", "x", "y", tuple(Series.of(str(n), [0.0], [0.0]) for n in range(8)))
    assert [key.colour for key in legend(many)] == [0, 1, 2, 3, 4, 5, 0, 1]


@pytest.mark.parametrize(
    "figure",
    [
        Figure("t", "x", "y", ()),
        line([], []),
        line([1.0], [np.nan]),
        line([1.0, 2.0], [-1.0, 0.0], log_y=True),
        line([0.0], [1.0], log_x=True),
    ],
)
def test_a_figure_without_a_point_is_not_drawn(figure):
    assert draw([figure], "p") is None


def test_a_long_curve_stays_small():
    steps = np.arange(100_000.0)
    noisy = np.exp(-steps / 1e4) * (1.5 + np.sin(steps))
    svg = draw([line(steps, noisy, log_y=True)], "p")
    assert svg is not None
    assert len(svg) < 40_000


values = arrays.arrays(np.float64, 5, elements=st.floats(allow_nan=True, allow_infinity=True, width=64))


@settings(deadline=None, max_examples=40)
@given(values, values, st.sampled_from(["line", "bound", "points", "bars"]), st.booleans(), st.booleans())
def test_any_numbers_can_be_drawn(x, y, kind, log_x, log_y):
    figure = Figure("t", "x", "y", (Series.of("a", x, y, kind),), log_x=log_x, log_y=log_y)
    svg = draw([figure, figure], "p")
    if svg is not None:
        ElementTree.fromstring(svg)
        assert "nan" not in svg
        assert "inf" not in svg


SVG = b"""<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="10pt" viewBox="0 0 10 10"
     xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata>when and by whom</metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="figure_1">
  <defs><path id="mark" d="M 0 0.123456 L -1.5 2.999999"/></defs>
  <use xlink:href="#mark" x="1.000001" style="stroke: #010101; stroke-width: 0.6"/>
  <path d="M 0 0" clip-path="url(#clip)" style="fill: #ffffff; stroke: #010101"/>
  <text style="font: 10px 'DejaVu Sans'; text-anchor: middle" x="1"
        transform="rotate(-0 1 2)">a &lt;b&gt; #010101 id="x"</text>
 </g>
</svg>"""


def inlined(prefix: str = "p") -> ElementTree.Element:
    return ElementTree.fromstring(inline_svg(SVG, prefix, {"#010101": "var(--axis)"}))


def test_nothing_is_left_that_could_reach_beyond_the_inlined():
    root = inlined()
    assert {element.tag for element in root.iter()} == {"svg", "defs", "g", "path", "use", "text"}
    assert root.attrib == {"viewBox": "0 0 10 10", "class": "plot", "aria-hidden": "true"}


def test_ids_and_what_refers_to_them_carry_the_prefix():
    root = inlined("figure7")
    assert [element.get("id") for element in root.iter() if element.get("id")] == ["figure7-mark"]
    assert [element.get("href") for element in root.iter("use")] == ["#figure7-mark"]
    assert root.findall(".//g/path")[0].get("clip-path") == "url(#figure7-clip)"


def test_colours_are_translated_in_styles_alone():
    root = inlined()
    assert [element.get("style") for element in root.iter("use")] == ["stroke: var(--axis);stroke-width: 0.6"]
    assert root.findall(".//g/path")[0].get("style") == "fill: #ffffff;stroke: var(--axis)"
    assert root.findall(".//text")[0].text == 'a <b> #010101 id="x"'


def test_text_has_no_font_of_its_own_and_numbers_are_short():
    root = inlined()
    text = root.findall(".//text")[0]
    assert text.attrib == {"style": "text-anchor: middle", "x": "1"}
    assert root.findall(".//defs/path")[0].get("d") == "M 0 0.12 L -1.5 3"
    assert root.findall(".//use")[0].get("x") == "1"


FIGURE = Figure("Loss <b> & more", "step", "loss", (Series.of("a < b", [1, 2, 3], [3.0, 2.0, 1.0]),))
EMPTY = Figure("Nothing", "step", "loss", (Series.of("none", [1.0], [math.nan]),))


def make_run(tmp_path, **figures):
    records = tuple(
        FindingRecord(
            Origin(f"P2/{name.replace('_', '-')}", "Title", "Section 1", "s", "quick", {}, 0, "c"),
            Finding((Conclusion("kept", "<=", 1.0, 0.5),), figures=shown),
            0.1,
            {},
        )
        for name, shown in figures.items()
    )
    return Run(tmp_path, "quick", records, (), {})


def test_a_file_shows_the_title_the_axes_and_the_legend(tmp_path):
    two = Figure(FIGURE.title, "step", "loss", (*FIGURE.series, Series.of("$bound", [1, 3], [3, 3], "bound")))
    (file,) = write_figures(make_run(tmp_path, figure_1=(two,)), tmp_path / "pictures")
    root = ElementTree.fromstring(file.path.read_bytes())
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {"Loss <b> & more", "step", "loss", "a < b", "$bound"} <= set(words)


def test_equal_figures_give_equal_files(tmp_path):
    run = make_run(tmp_path, figure_1=(FIGURE, bars()))
    files = [write_figures(run, tmp_path / folder) for folder in ("one", "two")]
    assert [file.path.read_bytes() for file in files[0]] == [file.path.read_bytes() for file in files[1]]


def test_named_positions_stand_below_each_other_in_a_panel():
    (panel,) = plot_figures([bars()]).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["first part", "second part"]


def test_what_cannot_be_drawn_has_no_file(tmp_path):
    assert write_figures(make_run(tmp_path, figure_1=(EMPTY,)), tmp_path / "pictures") == []
    assert plot_figures([EMPTY]).axes


def test_the_first_figures_of_experiments_are_written_and_shown(tmp_path):
    run = make_run(tmp_path, figure_1=(FIGURE, FIGURE, FIGURE), lemma_2=(FIGURE,))
    pictures = write_figures(run, tmp_path / "pictures")
    assert [picture.path.name for picture in pictures] == ["P2--figure-1-1.svg", "P2--figure-1-2.svg"]
    page = write_markdown(run, tmp_path / "page.md", figures=pictures).read_text()
    assert "![P2/figure-1](pictures/P2--figure-1-1.svg)" in page
    assert "Loss \\<b\\> \\& more" in page
    assert "Figures of the experiments" not in write_markdown(run, tmp_path / "bare.md").read_text()
