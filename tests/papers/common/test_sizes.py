"""The tests of `papers/common/sizes.py`."""

import pytest

from attangent.papers.common.sizes import by_size, no_growth, ratios

SIZES = [8, 16, 32, 64]


def test_ratios_need_one_bound_per_value():
    assert ratios([1.0, 6.0], [2.0, 3.0]) == [0.5, 2.0]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 6.0], [2.0])


def test_values_are_named_by_their_size():
    assert by_size("loss at d = {:g}", [0.5, 2], [1.0, 3.0]) == {"loss at d = 0.5": 1.0, "loss at d = 2": 3.0}


def test_growth_breaks_the_line():
    falling = no_growth("error", SIZES, [1 / size for size in SIZES], part="a")
    assert (falling.kept, falling.part, falling.relation, falling.bound) == (True, "a", "<=", 0.0)
    assert no_growth("error", SIZES, SIZES, claimed=False).kept is False
