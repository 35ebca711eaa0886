import numpy as np
import pytest

from attangent.forecast.pipeline.panels.metrics import coverage, mase, smape, weighted_quantile_loss


def test_by_hand():
    actual, forecast = np.array([[2.0, 4.0], [0.0, 0.0]]), np.array([[1.0, 6.0], [0.0, 1.0]])
    assert mase(actual, forecast, np.array([3.0, 0.5])).tolist() == [0.5, 1.0]
    assert smape(actual, forecast).tolist() == pytest.approx([(200 / 3 + 40) / 2, 100.0])
    assert coverage(actual, forecast - 1, forecast + 1) == 0.75


def test_quantile_loss_is_least_at_the_quantiles():
    rng = np.random.default_rng(0)
    actual, p = 5 + rng.normal(size=(4000, 1)), np.array([0.1, 0.5, 0.9])
    right = np.quantile(actual, p)
    at = [
        weighted_quantile_loss(actual, np.broadcast_to(right * f, (4000, 1, 3)), p) for f in (0.95, 1, 1.05)
    ]
    assert at[1] == min(at)
    assert weighted_quantile_loss(np.zeros((1, 1)), np.zeros((1, 1, 3)), p) == 0
