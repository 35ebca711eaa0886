import numpy as np

from attangent.forecast.data.periods import period_of
from attangent.forecast.data.steps import Step


def test_the_calendar_decides_and_numbers_are_looked_at():
    rng = np.random.default_rng(0)
    season = [np.tile(rng.normal(size=6), 20) + 0.1 * rng.normal(size=120) for _ in range(5)]
    noise = [rng.normal(size=120) for _ in range(5)]
    assert period_of(season, Step("months", 1)) == 12
    assert period_of(season, Step("number", 1)) == 6
    assert period_of(noise, Step("number", 1)) == 1
