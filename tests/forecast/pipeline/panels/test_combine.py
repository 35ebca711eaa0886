import numpy as np
import pytest

from attangent.forecast.pipeline.panels.backtest import Members, PanelTrial
from attangent.forecast.pipeline.panels.combine import FAMILIES, Combination


def made(errors, actual=10.0):
    """A trial in which each model is off by its error."""
    names = ("smoothing", "smoothing-log", "theta", "ridge-1")
    members = Members({n: np.full((2, 3), actual + e) for n, e in zip(names, errors, strict=True)})
    return members, PanelTrial(3, members, np.full((2, 3), actual), np.ones(2), np.array([True, True]))


def test_families_are_equal_before_anything_is_known():
    members, _ = made([1, 1, 1, 1])
    found = Combination.of(list(FAMILIES), members, [])
    np.testing.assert_allclose(found.weights, np.tile([1 / 6, 1 / 6, 1 / 3, 1 / 3], (2, 1)))


def test_errors_move_weights_and_never_make_them_negative():
    members, trial = made([1, 1, 4, 1])
    found = Combination.of(list(FAMILIES), members, [trial])
    weights = dict(zip(found.names, found.weights[0], strict=True))
    assert weights["theta"] < 0.02
    assert weights["ridge-1"] == pytest.approx(2 * weights["smoothing"])
    np.testing.assert_allclose(found.weights.sum(axis=1), 1)
    np.testing.assert_allclose(
        found.apply(members)[0], 10 + 1 * (1 - weights["theta"]) + 4 * weights["theta"]
    )


def test_a_perfect_past_is_no_reason_to_trust_one_model_alone():
    members, trial = made([0, 0, 0, 0])
    np.testing.assert_allclose(
        Combination.of(list(FAMILIES), members, [trial]).weights[0], [1 / 6, 1 / 6, 1 / 3, 1 / 3]
    )
