import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast.data.windows import every_window
from attangent.forecast.models.catalogue import AUTO, make
from attangent.forecast.pipeline import choose as choosing
from attangent.forecast.pipeline.choose import Standardised, choose, default_lookback, folds, try_model
from attangent.forecast.pipeline.conformal import Residuals
from tests.forecast.examples import autoregression, waves


def test_folds_are_at_the_end_and_never_overlap():
    parts = folds(1000, 50, 20)
    assert [(p.origin, p.end) for p in parts] == [(500 + 100 * k, 600 + 100 * k) for k in range(5)]
    assert len(folds(100, 20, 20)) == 2
    with pytest.raises(AttangentError, match="expected at least look-back \\+ 3 horizons \\+ 1 = 81"):
        folds(80, 20, 20)


def test_the_default_look_back_always_leaves_room():
    for length in (30, 100, 1000, 10**6):
        for horizon in (1, 5, 9):
            assert len(folds(length, default_lookback(length, horizon), horizon)) >= 2


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (np.cumsum(autoregression(1500, (0.0,))), {"persistence", "linear", "linear-mean"}),
        (
            np.tile(np.random.default_rng(0).normal(size=10), 60),
            {"seasonal", "linear", "linear-mean", "linear-none"},
        ),
        (autoregression(1500), {"linear-none"}),
    ],
    ids=["random walk", "periodic", "autoregression"],
)
def test_auto_takes_the_model_the_series_calls_for(series, expected):
    choice = choose(AUTO, series, 24, 3)
    assert choice.model in expected
    assert choice.model in choice.why
    assert len(choice.table()) == 5 * len(AUTO)


def test_auto_lets_windows_drift_where_they_do():
    series = 0.2 * np.arange(1200.0) + np.random.default_rng(0).normal(size=1200)
    assert choose(AUTO, series, 12, 40).model == "linear-intercept"


def test_the_last_fold_has_no_say():
    series = waves(500, 1)[:, 0]
    spoiled = series.copy()
    spoiled[450:] = np.random.default_rng(0).normal(size=50)
    assert choose(AUTO, series, 24, 3).why == choose(AUTO, spoiled, 24, 3).why


def test_a_trial_predicts_each_window_once_and_keeps_its_errors(monkeypatch):
    series, fold, seen = waves(400, 1)[:, 0], folds(400, 24, 6)[0], []
    usual = choosing.every_window
    monkeypatch.setattr(choosing, "every_window", lambda *a: seen.append(a) or usual(*a))
    trial = try_model("linear", series, fold, 0, 24, 6)
    assert len(seen) == 1
    fitted = Standardised.fit(make("linear", 24, 6), series[: fold.origin])
    part = fitted.apply(series[fold.origin - 24 : fold.end])[:, None]
    slow = Residuals.of(fitted.forecaster, part)
    np.testing.assert_allclose(trial.residuals.scaled, slow.scaled, rtol=1e-12)
    (pair,) = every_window(part, 24, 6)
    error = fitted.scale * (fitted.forecaster.predict(pair[0][..., 0]) - pair[1][..., 0])
    assert trial.mse == pytest.approx(np.square(error).mean())
    assert trial.mae_by_step == pytest.approx(np.abs(error).mean(axis=0))
