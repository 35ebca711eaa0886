"""The order of groups and its certainty."""

import numpy as np
import pytest

from attangent.stages.detector.group import Group, Stage
from attangent.stages.detector.order import order_of


def group(name, onset, error):
    stage = Stage(name, onset, (onset - 1.96 * error, onset + 1.96 * error), None, None, 1.0, 0.0, 1.0)
    return Group(name, (stage,), 50, level=0.0, steps=np.arange(50.0))


def test_certainty_is_that_of_two_normal_onsets():
    order = order_of([group("b", 30.0, 3.0), group("a", 25.0, 4.0), group("c", 90.0, 1.0)])
    assert order.names == ("a", "b", "c")
    assert order.certainty == pytest.approx((0.8413, 1.0), abs=1e-3)
    assert str(order) == "a < b (84%) < c (100%)"


def test_groups_of_the_start_up_come_first_and_are_not_told_apart():
    falling = [Group(name, (), 50, level=0.0, startup=1.0, steps=np.arange(50.0)) for name in "xy"]
    still = Group("z", (), 50, level=1.0, steps=np.arange(50.0))
    order = order_of([group("a", 25.0, 4.0), *falling, still])
    assert order.names == ("x", "y", "a")
    assert order.certainty == pytest.approx((0.5, 1.0))
    assert str(order_of([still])) == "no group falls"
