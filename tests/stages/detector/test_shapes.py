"""Shapes of a fall: laid out by the tenth and the nine tenths that are gone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.stages.detector.shapes import SHAPES, Shift, at, fallen


@pytest.mark.parametrize("shape", SHAPES)
@given(onset=st.floats(-50, 50), length=st.floats(0.1, 100))
def test_a_tenth_is_gone_at_the_onset_and_nine_tenths_at_the_end(shape, onset, length):
    steps = np.array([onset - 50 * length, onset, onset + length, onset + 50 * length])
    np.testing.assert_allclose(fallen(shape, steps, onset, onset + length), [1, 0.9, 0.1, 0], atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_falls_fall(shape):
    assert (np.diff(fallen(shape, np.linspace(0, 100, 301), 30, 60)) <= 0).all()


def test_places_between_and_beyond_uneven_steps():
    steps = np.array([0.0, 1.0, 10.0, 100.0])
    assert [at(steps, place) for place in (0.5, 2.5, 4.0, -1.0)] == [0.5, 55.0, 190.0, -1.0]
    column = Shift("ramp", 1.0, 1.0, -1.0).column(steps)
    np.testing.assert_allclose(column, [-1.0, -0.9, -0.1, 0.0], atol=0.02)
