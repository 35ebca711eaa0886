import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from attangent._core.random import generator
from benchmarks.harness.intervals import all_known_within, median_interval, ratios


def test_ratios_are_of_the_rounds_that_both_ran():
    assert ratios([2.0, 6.0], [1.0, 2.0, 5.0]) == [2.0, 3.0]


@given(values=st.lists(st.floats(0.5, 2.0), max_size=5))
def test_too_few_rounds_have_no_interval(values):
    assert median_interval(values) is None


@pytest.mark.parametrize("count", [6, 7, 9, 20, 45])
def test_the_interval_misses_the_median_as_often_as_it_says(count):
    low, high = median_interval(list(range(count)))
    below = low + 1  # this many values lie at or below the lower end
    assert 2 * binom.cdf(below - 1, count, 0.5) <= 0.05
    assert 2 * binom.cdf(below, count, 0.5) > 0.05, "a shorter interval would do"
    assert high == count - 1 - low


def test_the_interval_holds_the_median_of_drawn_rounds():
    import torch

    drawn = torch.randn(2000, 15, generator=generator(0, "rounds")).exp()
    held = sum(low <= 1 <= high for low, high in (median_interval(row.tolist()) for row in drawn))
    assert 0.95 <= held / 2000 <= 0.99


@pytest.mark.parametrize(("spread", "known"), [(0.001, True), (0.2, False)])
def test_a_ratio_is_known_when_its_rounds_agree(spread, known):
    times = [1 + spread * (-1) ** i for i in range(9)]
    assert all_known_within({"base": [1.0] * 9, "ours": times}, "base", 0.05) is known


def test_nothing_is_known_without_the_baseline():
    assert not all_known_within({"ours": [1.0] * 9}, "base", 0.05)
