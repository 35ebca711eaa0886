"""The tests of `papers/p1/prefix_regression.py`."""

import pytest

from attangent.audit import registry
from attangent.audit.papers.p1.prefix_regression import hard_regression, limit_ratio


def test_hard_data_are_in_the_unit_ball_and_hard():
    settings = registry.get("P1/theorem-3.2").quick | {"m": 64}
    p = hard_regression(settings, 0)
    assert p.X.norm(dim=1).max() <= 1 + 1e-12
    assert p.Y.norm(dim=1).max() == pytest.approx(1.0)
    assert limit_ratio(p.X, settings.sigma) < 0.2
