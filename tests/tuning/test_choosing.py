"""The usual way is left only for one that is clearly better."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.tuning.choosing import LEAST_GAIN, clearly_better

ERRORS = st.lists(st.floats(0, 1), min_size=2, max_size=20)


@given(ERRORS, ERRORS)
def test_of_two_ways_at_most_one_is_clearly_better(first, second):
    size = min(len(first), len(second))
    assert not (clearly_better(first[:size], second[:size]) and clearly_better(second[:size], first[:size]))


@given(ERRORS)
def test_nothing_is_better_than_itself(errors):
    assert not clearly_better(errors, errors)


@pytest.mark.parametrize(
    ("errors", "usual", "better"),
    [
        ([0.1] * 9, [0.1 + 2 * LEAST_GAIN] * 9, True),
        ([0.1] * 9, [0.1 + LEAST_GAIN / 2] * 9, False),  # by too little to matter
        ([0.0, 0.0, 0.5], [0.9, 0.0, 0.0], False),  # by chance: gains .9, 0, -.5
        ([0.0001] * 40, [0.001] * 40, False),  # both are right: a smaller loss alone is no reason
        ([math.inf] * 3, [0.9] * 3, False),
        ([0.9] * 3, [math.inf] * 3, True),
        ([0.0], [1.0], False),  # one row tells nothing
    ],
)
def test_what_is_clear(errors, usual, better):
    assert clearly_better(errors, usual) is better
