"""The tests of `papers/p3/two_stage_setting.py`."""

import pytest

from attangent.papers.p3_two_stage.claims.two_stage_setting import STAGES, exponent


def test_the_exponent_of_a_power_law():
    sizes = [8, 32, 128]
    assert exponent(sizes, [3 * size**-1.5 for size in sizes]) == pytest.approx(-1.5)
    assert exponent(sizes, [0.0, 0.0, 0.0]) == 0.0


def test_the_stage_setting_lasts_one_decay_time():
    assert STAGES["first_steps"] * STAGES["first_rate"] * STAGES["weight_decay"] == pytest.approx(1.0)
