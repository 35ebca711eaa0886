import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.neural_network import MLPRegressor

from attangent import AttangentError
from attangent.forecast import read_frame
from attangent.forecast.pipeline.diagnosis import diagnose
from tests.forecast.examples import autoregression, ett, logistic_map, setar, waves


def trained_gain(series, lags=4):
    """How much less error a trained neural network has than least squares, one step ahead, held out."""
    rows = sliding_window_view((series - series.mean()) / series.std(), lags + 1)
    cut = int(0.8 * len(rows))
    x, y, x_new, y_new = rows[:cut, :-1], rows[:cut, -1], rows[cut:, :-1], rows[cut:, -1]
    weights = np.linalg.lstsq(np.column_stack((x, np.ones(cut))), y, rcond=None)[0]
    network = MLPRegressor(
        hidden_layer_sizes=(32,), max_iter=300, early_stopping=True, learning_rate_init=5e-3, random_state=0
    )
    trained = np.square(network.fit(x, y).predict(x_new) - y_new).mean()
    return 1 - trained / np.square(x_new @ weights[:-1] + weights[-1] - y_new).mean()


KNOWN = {"ar": (autoregression(), False), "setar": (setar(), True), "logistic": (logistic_map(), True)}


@pytest.mark.parametrize(("series", "room"), KNOWN.values(), ids=KNOWN)
def test_head_room_agrees_with_a_trained_network(series, room):
    found = diagnose(series, horizon=4, lookback=24)
    low, high = found.headroom.interval
    assert low <= found.headroom.share <= high
    if room:
        assert low > 0.02
        assert trained_gain(series) > 0.05
        assert "Non-linear models have room" in found.verdict
    else:
        assert high < 0.05
        assert trained_gain(series) < 0.05
        assert "next to no room" in found.verdict


def test_a_wave_is_linear_and_a_walk_is_persistent():
    wave = diagnose(waves(1500, 1)[:, 0], horizon=6, lookback=36)
    assert wave.period % 12 == 0
    assert wave.errors["linear"] < 0.1 * wave.errors["persistence"]
    assert "use it" in wave.verdict
    walk = diagnose(np.cumsum(autoregression(3000, (0.0,))), horizon=4, lookback=8)
    assert walk.errors["linear"] == pytest.approx(walk.errors["persistence"], rel=0.05)


def test_signs_and_shift():
    flips = diagnose(
        np.where(np.arange(600) % 2, 1.0, -1.0) + waves(600, 1)[:, 0] * 0.1, horizon=2, lookback=8
    )
    assert flips.sign_inconsistent > 0.99
    moved = waves(1000, 1)[:, 0]
    moved[800:] = 5 + 3 * moved[800:]
    found = diagnose(moved, horizon=4, lookback=24)
    assert found.shift.mean == pytest.approx(5 / moved[:800].std(), rel=0.05)
    assert found.shift.spread == pytest.approx(3, rel=0.15)
    assert "differs from its past" in found.verdict
    assert "differs" not in diagnose(waves(1000, 1), horizon=4, lookback=24).verdict


def test_refusals():
    with pytest.raises(AttangentError, match="constant"):
        diagnose(np.ones(500))
    with pytest.raises(AttangentError, match="too few"):
        diagnose(waves(40), horizon=10, lookback=20)
    with pytest.raises(AttangentError, match="not finite"):
        diagnose([1.0, np.nan] * 100)


def test_a_constant_channel_is_left_aside():
    series = np.column_stack((waves(500, 1), np.ones(500)))
    assert diagnose(series, horizon=4, lookback=24).channels == 1


def test_ett_rewards_linear_models():
    frame = read_frame(ett("ETTh1")).frame
    found = diagnose(frame.iloc[:14400], horizon=96, lookback=336)
    assert found.errors["linear"] < 0.75 * min(found.errors["persistence"], found.errors["seasonal"])
    assert found.headroom.interval[1] < 0.02
    assert found.shift.mean > 1
