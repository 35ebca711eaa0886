"""The tests of `papers/p5/scalar_regression.py`."""

import math

import pytest

from attangent.audit import registry
from attangent.papers.p5_forecasting.claims.scalar_regression import exponent, sizes_of_data_and_weights


def test_constants_are_those_of_the_definitions():
    settings = registry.get("P5/lemma-k.3").quick
    B, D = sizes_of_data_and_weights(settings)
    assert pytest.approx(math.sqrt(1.0001 * math.log(32 * 8 / 0.05))) == B
    assert pytest.approx(math.sqrt(math.log(512 / 0.05))) == D
    assert exponent(settings) == pytest.approx(8 * B**2 * D * math.log10(math.e))
