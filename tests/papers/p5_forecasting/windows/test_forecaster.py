import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.linear_model import Ridge

from attangent import AttangentError
from attangent.forecast.models.linear import JITTER
from attangent.papers.p5_forecasting.windows import forecaster
from attangent.papers.p5_forecasting.windows.forecaster import (
    LinearForecaster,
    Persistence,
    SeasonalNaive,
    every_window,
    find_period,
    window_count,
)
from attangent.papers.p5_forecasting.windows.protocol import evaluate_windows, load_csv
from tests.forecast.examples import autoregression, ett, waves


@pytest.mark.parametrize("stride", [1, 3])
def test_pieces_hold_every_window_in_order(monkeypatch, stride):
    series = waves(100)
    monkeypatch.setattr(forecaster, "PIECE_BYTES", 8 * 15 * 2 * 7)  # seven windows at a time
    pieces = list(every_window(series, 10, 5, stride))
    assert len(pieces) > 1
    inputs, targets = (np.concatenate(part) for part in zip(*pieces, strict=True))
    starts = range(0, window_count(100, 10, 5), stride)
    np.testing.assert_array_equal(inputs, np.stack([series[t : t + 10] for t in starts]))
    np.testing.assert_array_equal(targets, np.stack([series[t + 10 : t + 15] for t in starts]))


def test_a_series_without_a_window_is_refused():
    assert window_count(14, 10, 5) == 0
    with pytest.raises(AttangentError, match="expected at least look-back"):
        next(every_window(waves(14), 10, 5))


PUBLISHED_BARS = {"ETTh1": (0.371, 0.405, 0.428, 0.432), "ETTh2": (0.273, 0.336, 0.360, 0.395)}


def sklearn_ridge(series, L, H, normalise, alpha):
    """Ridge on explicit windows; the intercept only where no level is taken off, as in ours."""
    windows = sliding_window_view(series - series.mean(), L + H).copy()
    if normalise != "none":
        windows -= (windows[:, L - 1] if normalise == "last" else windows[:, :L].mean(axis=1))[:, None]
    x, y = windows[:, :L], windows[:, L:]
    about = x - x.mean(axis=0) if normalise == "none" else x
    penalty = (alpha + JITTER) * np.square(about).mean() * len(x)
    return Ridge(penalty, fit_intercept=normalise == "none").fit(x, y)


@pytest.mark.parametrize("normalise", ["last", "mean", "none"])
@pytest.mark.parametrize("alpha", [1e-3, 0.3])
def test_against_scikit_learn(normalise, alpha):
    series, L, H = waves(300, 1)[:, 0] + 50, 16, 4
    model = LinearForecaster(L, H, normalise, alpha=alpha).fit(series)
    peer = sklearn_ridge(series, L, H, normalise, alpha)
    window = series[-L:] - series.mean()
    level = {"last": window[-1], "mean": window.mean(), "none": 0.0}[normalise]
    expected = peer.predict((window - level)[None])[0] + level + series.mean()
    np.testing.assert_allclose(model.predict(series[-L:]), expected, rtol=1e-7)


def test_shared_weights_pool_the_channels():
    series, L, H = waves(300, 3), 12, 3
    pooled = LinearForecaster(L, H, alpha=0.1).fit(series)
    x, y = [], []
    for channel in (series - series.mean(axis=0)).T:
        windows = sliding_window_view(channel, L + H)
        windows = windows - windows[:, L - 1 : L]
        x.append(windows[:, :L])
        y.append(windows[:, L:])
    x, y = np.concatenate(x), np.concatenate(y)
    penalty = (0.1 + JITTER) * np.trace(x.T @ x) / L
    W = np.linalg.solve(x.T @ x + penalty * np.eye(L), x.T @ y)
    np.testing.assert_allclose(pooled.coef_[0], W, rtol=1e-6, atol=1e-9)


def test_channel_weights_are_those_of_each_channel_alone():
    series = waves(300, 2)
    both = LinearForecaster(12, 3, weights="channel", alpha=0.1).fit(series)
    alone = LinearForecaster(12, 3, alpha=0.1).fit(series[:, 1])
    np.testing.assert_allclose(both.coef_[1], alone.coef_[0], rtol=1e-9)


def test_alpha_is_the_best_on_validation():
    train, held_out = waves(200, 1, noise=0.5), waves(200, 1, noise=0.5, seed=1)
    alphas = (1e-4, 1e-2, 1.0)
    chosen = LinearForecaster(24, 4, alphas=alphas).fit(train, held_out)
    errors = {a: -LinearForecaster(24, 4, alpha=a).fit(train).score(held_out) for a in alphas}
    assert chosen.alpha_ == [min(alphas, key=errors.__getitem__)]


def test_an_intercept_is_kept_where_a_drift_goes_on():
    rng = np.random.default_rng(0)
    drifting = np.cumsum(0.5 + rng.normal(size=300))
    turning = np.concatenate([drifting[:200], drifting[199] - np.cumsum(0.5 + rng.normal(size=100))])
    for series, kept in ((drifting, True), (turning, False)):
        chosen = LinearForecaster(4, 12, intercept=None).fit(series[:200], series[196:])
        assert chosen.intercept_kept_ == kept
        same = LinearForecaster(4, 12, intercept=kept).fit(series[:200], series[196:])
        np.testing.assert_array_equal(chosen.predict(series[-4:]), same.predict(series[-4:]))
    with_one, without = (
        LinearForecaster(4, 12, intercept=k).fit(drifting[:200]).score(drifting[196:]) for k in (True, False)
    )
    assert with_one > without


def test_units_do_not_matter():
    series = waves(300, 1)
    small = LinearForecaster(12, 3).fit(series).predict(series[-12:])
    large = LinearForecaster(12, 3).fit(1e7 + 1e4 * series).predict(1e7 + 1e4 * series[-12:])
    np.testing.assert_allclose((large - 1e7) / 1e4, small, atol=1e-6)


def test_a_constant_stays_constant():
    for normalise in ("last", "mean", "none"):
        model = LinearForecaster(5, 2, normalise).fit(np.full(50, 3.0))
        np.testing.assert_allclose(model.predict(np.full(5, 3.0)), 3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"weights": "some"}, "weights is 'some', expected one of shared, channel"),
        ({"normalise": "first"}, "normalise is 'first'"),
        ({"lookback": 0}, "lookback is 0, expected a whole number of at least 1"),
        ({"horizon": 1.5}, "horizon is 1.5"),
    ],
)
def test_bad_settings_are_refused_on_creation(changes, message):
    with pytest.raises(AttangentError, match=message):
        LinearForecaster(**{"lookback": 4, "horizon": 2, **changes})


@pytest.mark.parametrize("name", PUBLISHED_BARS)
def test_errors_on_ett_with_look_back_336(name):
    dataset = load_csv(ett(name), split="ett")
    for horizon, bar in zip((96, 192, 336, 720), PUBLISHED_BARS[name], strict=True):
        table = evaluate_windows(LinearForecaster(336, horizon), dataset)
        assert table.mse[0] <= bar
        assert table.test_windows[0] == 2880 - horizon + 1


def test_persistence_repeats_the_last_value():
    assert Persistence(3, 2).fit(np.arange(9.0)).predict([1.0, 2.0, 7.0]).tolist() == [7.0, 7.0]


def test_seasonal_repeats_the_last_period():
    model = SeasonalNaive(6, 8, period=4).fit(waves(50, 1)[:, 0])
    assert model.predict(np.arange(6.0)).tolist() == [2, 3, 4, 5, 2, 3, 4, 5]


@pytest.mark.parametrize("period", [5, 12, 24])
def test_period_is_found_under_noise_and_trend(period):
    t = np.arange(600)
    series = np.sin(2 * np.pi * t / period) + 0.1 * np.random.default_rng(0).normal(size=600) + 0.01 * t
    found = find_period(series[:, None], 60)
    assert found % period == 0


def test_no_period_where_there_is_none():
    assert find_period(np.cumsum(autoregression(3000, (0.0,)))[:, None], 100) == 1
    assert find_period(np.ones((50, 1)), 20) == 1


def test_a_period_beyond_the_look_back_is_refused():
    with pytest.raises(AttangentError, match="period is 9, expected at most the look-back of 8"):
        SeasonalNaive(8, 2, period=9)
