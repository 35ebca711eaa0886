import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.audit.report.axes import Axis, masked, thin_curve, thin_points


def axis(values, log=False) -> Axis:
    found = Axis.of([np.asarray(values, dtype=float)], log)
    assert found is not None
    return found


def test_an_axis_spans_its_values_with_a_margin():
    assert (axis([0.0, 100.0]).low, axis([0.0, 100.0]).high) == (-4.0, 104.0)
    logarithmic = axis([1.0, 1e4], log=True)
    assert math.log10(logarithmic.low) == pytest.approx(-0.16)
    assert math.log10(logarithmic.high) == pytest.approx(4.16)


def test_what_has_no_place_is_left_out():
    values = np.array([math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-320, 1e305, 2.0])
    assert np.isnan(masked(values, log=False)).tolist() == [
        True,
        True,
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert np.isnan(masked(values, log=True)).tolist() == [True] * 7 + [False]
    assert Axis.of([values[:5]], log=True) is None
    assert Axis.of([], log=False) is None


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1), st.booleans())
def test_every_axis_has_room_and_ticks_inside(values, log):
    found = Axis.of([np.array(values)], log)
    if found is None:
        return
    assert found.low < found.high
    assert math.isfinite(found.low)
    assert math.isfinite(found.high)
    ticks = found.ticks()
    assert 1 <= len(ticks) <= 9
    assert all(found.low <= tick <= found.high for tick in ticks)


@pytest.mark.parametrize(
    ("values", "log", "labels"),
    [
        ([0, 13], False, ["0", "5", "10"]),
        ([0.5, 2.5], False, ["0.5", "1", "1.5", "2", "2.5"]),
        ([1.00001, 1.00002], False, ["1.00001", "1.000012", "1.000014", "1.000016", "1.000018", "1.00002"]),
        ([1, 100], True, ["1", "10", "100"]),
        ([1e-15, 1], True, ["10⁻¹⁵", "10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "10⁰"]),
        ([2, 30], True, ["2", "5", "10", "20"]),
        ([3.1, 3.2], True, ["3.1", "3.12", "3.14", "3.16", "3.18", "3.2"]),
    ],
)
def test_ticks_are_round_and_told_apart(values, log, labels):
    assert list(axis(values, log).ticks().values()) == labels


def test_whole_numbers_get_whole_ticks():
    assert all(tick == int(tick) for tick in axis([0, 1, 2]).ticks())
    assert any(tick != int(tick) for tick in axis([0, 1.5, 2]).ticks())


def test_bars_start_at_zero_or_below_the_shortest():
    assert axis([3.0, 4.0]).for_bars().low == 0.0
    assert axis([-3.0, -4.0]).for_bars().high == 0.0
    assert axis([3.0, 4.0]).for_bars().foot == 0.0
    logarithmic = axis([1.0, 10.0], log=True).for_bars()
    assert logarithmic.foot == logarithmic.low < 0.5


@pytest.mark.parametrize("log", [False, True])
def test_a_thinned_curve_keeps_ends_and_extremes(log):
    x = np.arange(1.0, 50_001.0)
    y = np.sin(x)
    y[31_000], y[40_000] = 9.0, -9.0
    thin_x, thin_y = thin_curve(x, y, axis(x, log))
    assert len(thin_x) <= 4 * 301
    assert (thin_x[0], thin_x[-1]) == (x[0], x[-1])
    assert (thin_y.max(), thin_y.min()) == (9.0, -9.0)
    assert np.all(np.diff(thin_x) > 0)


def test_a_short_curve_and_one_that_runs_backwards_stay():
    x = np.linspace(0, 1, 1000)
    assert len(thin_curve(x, x, axis(x))[0]) == 1000
    circle = np.sin(np.linspace(0, 6, 5000))
    assert len(thin_curve(circle, circle, axis(circle))[0]) == 5000


def test_a_gap_in_a_long_curve_stays_a_gap():
    x = np.arange(10_000.0)
    y = np.where((x > 4000) & (x < 6000), np.nan, 1.0)
    thin_x, thin_y = thin_curve(x, y, axis(x))
    assert np.isnan(thin_y[(thin_x > 4000) & (thin_x < 6000)]).all()
    assert not np.isnan(thin_y[(thin_x <= 4000) | (thin_x >= 6000)]).any()


def test_points_on_one_spot_are_drawn_once():
    x = np.repeat([1.0, 2.0, np.nan], 1000)
    thin_x, thin_y = thin_points(x, x, axis([1.0, 2.0]), axis([1.0, 2.0]))
    assert thin_x.tolist() == thin_y.tolist() == [1.0, 2.0]
