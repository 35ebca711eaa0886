import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress, t

from attangent import AttangentError
from attangent.audit import Conclusion, Hypothesis, Trend
from attangent.audit.evidence import pooled_interval

MET = Hypothesis("h", ">=", 1.0, 2.0)
MISSED = Hypothesis("h", ">=", 200.0, 3.0, log10=True)


@given(bound=st.floats(allow_nan=False), measured=st.floats(allow_nan=False))
def test_relations(bound, measured):
    assert Conclusion("c", "<=", bound, measured).kept == (measured <= bound)
    assert Conclusion("c", ">=", bound, measured).kept == (measured >= bound)
    assert Conclusion("c", "==", bound, measured).kept == (measured == bound)


def test_numbers_of_numpy_are_judged_as_well():
    assert Conclusion("c", "<=", 1.0, np.float64(2.0)).kept is False
    assert Hypothesis("h", "<=", 1.0, np.float64(0.5)).met is True


def test_divergence_to_infinity_violates_an_upper_bound():
    assert Conclusion("c", "<=", 1.0, math.inf).kept is False


def test_missing_decades():
    assert MET.missing_decades == 0
    assert MISSED.missing_decades == pytest.approx(197)
    assert Hypothesis("h", "<=", 1e-3, 1.0).missing_decades == pytest.approx(3)
    assert math.isnan(Hypothesis("h", ">=", 1.0, -1.0).missing_decades)
    assert Hypothesis("h", "<=", 5.0, math.inf).missing_decades == math.inf
    assert Hypothesis("h", "<=", 1e-300, 1e300).missing_decades == pytest.approx(600)


def test_other_relations_and_thresholds_are_refused():
    with pytest.raises(AttangentError, match=r"must be <=, >=, ==, < or > \(got '=<'"):
        Conclusion("c", "=<", 1.0, 0.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttangentError, match=r"must be <=, >=, ==, < or > \(got '!'"):
        Hypothesis("h", "!", 1.0, 0.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttangentError, match=r"must be stated or ours \(got 'mine'"):
        Conclusion("c", "<=", 1.0, 0.5, threshold="mine")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("line", "slack"),
    [
        (Conclusion("c", "<=", 1e8, 10.0), 7),
        (Conclusion("c", ">=", 1e-4, 10.0), 5),
        (Conclusion("c", "<=", 237.0, -1.0, log10=True), 238),
        (Conclusion("c", ">=", -8.0, 1.0, log10=True), 9),
    ],
)
def test_slack_in_decades(line, slack):
    assert line.slack == pytest.approx(slack)
    assert line.cannot_fail == (slack > 6)


@pytest.mark.parametrize(
    "line",
    [
        Conclusion("broken", "<=", 1.0, 1e9),
        Conclusion("equal but for rounding", "<=", 1e-9, 1e-16),
        Conclusion("equal", "==", 1.0, 1.0),
        Conclusion("a count", "<=", 3.0, 0.0),
        Conclusion("negative", "<=", 3.0, -1e9),
        Conclusion("nothing", "<=", 3.0, -math.inf, log10=True),
        Conclusion.of_trend("a trend", "<=", 1e9, [1, 2, 4, 8], [1, 2, 4, 9]),
    ],
)
def test_lines_whose_slack_says_nothing_can_fail(line):
    assert math.isnan(line.slack)
    assert not line.cannot_fail


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_the_exponent_of_a_power_law(power, factor):
    sizes = [4, 8, 16, 64, 128]
    values = [factor * size**power for size in sizes]
    assert Trend(tuple(sizes), tuple(values)).exponent == pytest.approx(power, abs=1e-9)


def test_a_trend_without_an_exponent_decides_nothing():
    line = Conclusion.of_trend("t", "<=", 0.0, [1, 2, 4, 8], [1.0, 0.5, 0.0, 0.1])
    assert math.isnan(line.measured)
    assert line.kept is None


@pytest.mark.parametrize(
    ("sizes", "values"), [([1, 2, 4], [1, 1, 1]), ([1, 1, 2, 4], [1, 1, 1, 1]), ([1, 2, 4, 8], [1, 1, 1])]
)
def test_a_trend_needs_a_value_at_four_sizes(sizes, values):
    with pytest.raises(AttangentError, match="needs one value per size and at least 4 sizes"):
        Conclusion.of_trend("t", "<=", 0.0, sizes, values)


def test_the_interval_of_an_exponent_covers_it_in_nineteen_of_twenty_draws():
    random = np.random.default_rng(0)
    sizes = (8.0, 16.0, 32.0, 64.0, 128.0)
    covered = 0
    for _ in range(400):
        values = tuple(size**-0.5 * math.exp(0.2 * random.standard_normal()) for size in sizes)
        low, high = Trend(sizes, values).interval
        covered += low <= -0.5 <= high
    assert covered >= 0.93 * 400


def test_seeds_narrow_the_interval_of_their_common_exponent():
    random = np.random.default_rng(1)
    sizes = (8.0, 16.0, 32.0, 64.0)
    trends = [
        Trend(sizes, tuple(factor * size**-0.5 * math.exp(0.1 * random.standard_normal()) for size in sizes))
        for factor in (1.0, 10.0, 100.0)
    ]
    low, high = pooled_interval(trends)
    assert low <= -0.5 <= high
    assert high - low < min(trend.interval[1] - trend.interval[0] for trend in trends)


@pytest.mark.parametrize(("slope", "kept"), [(-0.5, True), (0.0, None), (0.5, False)])
def test_a_power_without_a_number_is_undecided_while_zero_is_possible(slope, kept):
    random = np.random.default_rng(3)
    sizes = (8.0, 16.0, 32.0, 64.0)
    values = [size**slope * math.exp(0.01 * random.standard_normal()) for size in sizes]
    line = Conclusion.of_trend("t", "<", 0.0, sizes, values)
    assert replace(line, interval=line.confidence).kept is kept
    assert replace(line, relation="<=", interval=line.confidence).kept is (kept is not False)


def test_least_squares_interval_agrees_with_scipy():
    random = np.random.default_rng(2)
    sizes = (2.0, 4.0, 8.0, 16.0)
    values = tuple(math.exp(random.standard_normal()) for _ in sizes)
    fit = linregress(np.log(sizes), np.log(values))
    reach = t.ppf(0.975, 2) * fit.stderr
    low, high = Trend(sizes, values).interval
    assert low <= fit.slope - reach + 1e-12
    assert high >= fit.slope + reach - 1e-12
    assert min(abs(low - fit.slope + reach), abs(high - fit.slope - reach)) < 1e-9


@pytest.mark.parametrize("interval", [(0.0,), (0.0, 1.0, 2.0)])
def test_an_interval_has_two_ends(interval):
    with pytest.raises(AttangentError, match="needs two ends"):
        Conclusion("c", "<=", 1.0, 0.5, interval=interval)


def test_an_equality_has_no_interval():
    with pytest.raises(AttangentError, match="relation <= or >="):
        Conclusion("c", "==", 1.0, 1.0, interval=(0.0, 2.0))
