import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attangent.audit import Figure, Series
from attangent.audit.report.figures import Key, draw, legend
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
