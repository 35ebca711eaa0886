"""The tests of `papers/p2/softmax_regression.py`."""

import math

import pytest

from attangent.audit import registry
from attangent.papers.p2_softmax.claims.softmax_regression import constants, softmax_regression


def test_constants_of_theorem_4_2_by_hand():
    settings = registry.get("P2/theorem-4.2").quick | {"sigma": 0.1, "C": 10.0}
    p = softmax_regression(settings, 0)
    nd, lam, m = 24, p.lambda_min, settings.m
    B = max(10 * 0.1 * math.sqrt(math.log(nd / 0.05)), 1)
    found = constants(p, settings)
    assert pytest.approx(B) == found.B
    width = lam**-2 * nd**2 * math.exp(18 * B) * math.log(nd / 0.05) ** 2
    assert found.log10_width == pytest.approx(math.log10(width))
    assert found.log10_rate == pytest.approx(math.log10(0.1 * lam / (m * nd**2 * math.exp(16 * B))))
    assert found.log10_radius == pytest.approx(math.log10(lam / (2 * nd * math.exp(10 * B))))
    start = p.Y.norm().item()
    moved = 4 / (m * lam) * math.exp(3 * B) * math.sqrt(nd) * start
    assert found.log10_movement == pytest.approx(math.log10(moved))
    steps = lam**-2 * nd**2 * math.exp(16 * B) * math.log(nd / 0.01)
    assert found.log10_steps == pytest.approx(math.log10(steps))
