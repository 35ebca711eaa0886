"""The tests of `papers/measures/trends.py`."""

from attangent.papers.common.trends import NOISE, at_least, at_most


def test_noise_is_given_on_the_side_of_the_statement():
    assert at_most(0.5) == 0.5 + NOISE
    assert at_least(0.5) == 0.5 - NOISE
    assert NOISE == 0  # the audit tests the stated exponent itself
