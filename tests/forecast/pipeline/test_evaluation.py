from types import SimpleNamespace

import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast import evaluate
from attangent.forecast.data.panel import Panel
from attangent.forecast.data.series import read_series
from attangent.forecast.pipeline.evaluation import coverage, mase, smape, weighted_quantile_loss
from tests.forecast.pipeline.test_forecaster import FRAME, long_frame


def test_all_models_with_the_best_first():
    found = evaluate(FRAME, 6)
    assert found.table.index[0] == found.winner
    assert found.table.mase.is_monotonic_increasing
    assert {"auto", "theta", "ridge", "seasonal"} <= set(found.table.index)
    given = read_series(FRAME)
    order = sorted(given.series, key=len, reverse=True)
    panel = Panel.of([one[:-6] for one in order], 12)
    actual = np.stack([one[-6:] for one in order])
    last = np.repeat(panel.values[:, -1:], 6, axis=1)
    assert found.table.mase["persistence"] == pytest.approx(mase(actual, last, panel.scale).mean())
    assert found.table["within 95 %"].between(0.5, 1).all()


def test_series_too_short_to_hold_out_are_counted_and_all_too_short_refused():
    found = evaluate(long_frame((60, 40, 7)), 6, windows=2)
    assert (found.series, found.left_out, found.windows) == (2, 1, 2)
    with pytest.raises(AttangentError, match=r"expected at least windows x horizon \+ 3 = 69"):
        evaluate(FRAME, 66)


def test_some_models_of_a_table_with_a_column_per_series():
    table = FRAME[FRAME.unique_id == "s0"].set_index("ds")[["y"]]
    found = evaluate(table, 6, id_col=None, time_col=None, target_col=(), models=["linear", "seasonal"])
    assert set(found.table.index) == {"linear", "seasonal"}
    with pytest.raises(AttangentError, match="model is 'prophet'"):
        evaluate(FRAME, 6, models=["prophet"])
    with pytest.raises(AttangentError, match="evaluate_windows"):
        evaluate(SimpleNamespace(lookback=3), 6)


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
