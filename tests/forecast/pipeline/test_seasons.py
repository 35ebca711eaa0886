"""The choice between the periods that a calendar offers."""

import numpy as np
import pytest

from attangent.forecast.data.calendar import DAY, TimeStep
from attangent.forecast.pipeline.seasons import choose_period

WEEK = TimeStep("fixed", 7 * DAY)
SIX_HOURS = TimeStep("fixed", DAY // 4)


def walks(count, times):
    return 100 + np.cumsum(np.random.default_rng(0).normal(size=(count, times)), axis=1)


def test_weeks_with_a_year_and_without():
    year = 20 * np.sin(2 * np.pi * np.arange(200) / 52)
    assert choose_period(list(walks(6, 200) + year), WEEK, 8) == 52
    assert choose_period(list(walks(20, 200)), WEEK, 8) == 1


def test_hours_that_repeat_by_the_week():
    profile = np.random.default_rng(1).normal(0, 10, 28)
    noise = np.random.default_rng(0).normal(size=(4, 280))
    assert choose_period(list(50 + np.tile(profile, 10) + noise), SIX_HOURS, 8) == 28
    assert choose_period(list(50 + np.tile(profile[:4], 70) + noise), SIX_HOURS, 8) == 4


@pytest.mark.parametrize(("step", "period"), [(WEEK, 1), (SIX_HOURS, 4), (TimeStep("months", 1), 12)])
def test_short_series_take_the_period_that_they_hold_twice(step, period):
    assert choose_period([np.arange(30.0)] * 3, step, 4) == period
