import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast import Persistence, read_frame
from attangent.forecast.pipeline.choose import folds, try_model
from attangent.forecast.pipeline.conformal import Residuals, Rolling, interval, recalibrate
from tests.forecast.examples import ett


def test_quantile_is_the_conformal_rank():
    residuals = Residuals(np.arange(1.0, 20.0).reshape(19, 1, 1))
    assert residuals.quantile(0.8)[0, 0] == 16  # ceil(20 * 0.8)
    assert residuals.quantile(0.95)[0, 0] == 19
    assert residuals.quantile(0.5, memory=9)[0, 0] == 15  # the 5th of 11..19


def test_too_few_windows_pool_the_steps_then_refuse():
    few = Residuals(np.arange(1.0, 11.0).reshape(2, 5, 1))
    assert few.quantile(0.8).tolist() == [[9.0]] * 5
    with pytest.raises(AttangentError, match="needs 19 held-out values, there are 10"):
        few.quantile(0.95)


def test_coverage_of_exchangeable_residuals_is_nominal():
    series = np.random.default_rng(0).normal(size=(6000, 1))
    model = Persistence(20, 2).fit(series)
    calibration = Residuals.of(model, series[:3000])
    for level in (0.8, 0.95):
        assert Residuals.of(model, series[3000:]).coverage(level, calibration) == pytest.approx(
            level, abs=0.03
        )


def test_interval_covers_as_often_as_coverage_says():
    series = np.random.default_rng(1).normal(size=(1500, 2))
    model = Persistence(10, 3).fit(series)
    calibration = Residuals.of(model, series[:800])
    windows = np.stack([series[t : t + 10] for t in range(800, 1400)])
    targets = np.stack([series[t + 10 : t + 13] for t in range(800, 1400)])
    low, high = interval(model, windows, calibration, 0.8)
    inside = ((low <= targets) & (targets <= high)).mean()
    assert Residuals.of(model, series[800:1412]).coverage(0.8, calibration) == pytest.approx(
        inside, abs=0.001
    )


def stepped(windows, change, low=1.0, high=3.0):
    """Residuals (windows, 5, 1) with a spread that changes at one window."""
    draws = np.abs(np.random.default_rng(0).normal(size=(windows, 5, 1)))
    draws[:change] *= low
    draws[change:] *= high
    return Residuals(draws)


def test_calibration_uses_only_what_is_known():
    first, later = stepped(300, 300), stepped(1000, 0)  # the second fold is three times as restless
    plan = Rolling(memory=300, every=10, step=0.0)
    found = recalibrate([first, later], 0.8, delay=50, plan=plan)
    quiet = first.quantile(0.8, 300)
    blind = float((later.scaled[:50] <= quiet).mean())
    assert blind < 0.5  # until something of the change is known
    at_once = recalibrate([first, later], 0.8, delay=0, plan=plan)
    assert found.coverage < at_once.coverage < 0.8
    assert found.level == 0.8


def test_the_level_moves_until_intervals_cover_what_they_say():
    rng = np.random.default_rng(1)
    growing = np.abs(rng.normal(size=(4000, 5, 1))) * np.linspace(1, 8, 4000)[:, None, None]
    parts = [Residuals(growing[:1000]), Residuals(growing[1000:])]
    fixed = recalibrate(parts, 0.8, delay=5, plan=Rolling(step=0.0))
    moving = recalibrate(parts, 0.8, delay=5)
    assert fixed.coverage < 0.75
    assert moving.coverage == pytest.approx(0.8, abs=0.02)
    assert moving.level > 0.8
    calm = recalibrate([stepped(1000, 1000), stepped(1000, 1000)], 0.8, delay=5)
    assert calm.level == pytest.approx(0.8, abs=0.03)


def test_a_level_is_never_asked_that_residuals_cannot_answer():
    far_off = [
        Residuals(np.ones((30, 1, 1))),
        Residuals(np.full((600, 1, 1), 9.0) * np.arange(1, 601)[:, None, None]),
    ]
    found = recalibrate(far_off, 0.9, delay=1, plan=Rolling(memory=30, every=5, step=0.5))
    assert found.level <= 30 / 31
    assert np.isfinite(Residuals(far_off[1].scaled[-30:]).quantile(found.level)).all()


def test_folds_too_short_for_a_level_wait_for_more_then_refuse():
    short = [Residuals(np.abs(np.random.default_rng(k).normal(size=(2, 6, 1)))) for k in range(3)]
    assert 0 <= recalibrate(short, 0.95, delay=6).coverage <= 1
    with pytest.raises(AttangentError, match="needs 19 held-out values, there are 12"):
        recalibrate(short[:2], 0.95, delay=6)


@pytest.mark.parametrize("name", ["ETTh1", "ETTh2"])
@pytest.mark.parametrize(("target", "horizon"), [("OT", 24), ("MUFL", 96)])
def test_coverage_on_ett(name, target, horizon):
    """Of the test months, 11520 to 14400, by models fitted and residuals known before."""
    series = read_frame(ett(name)).frame[target].to_numpy(dtype=np.float64)[:14400]
    trials = [try_model("linear", series, fold, 0, 336, horizon) for fold in folds(14400, 336, horizon)]
    earlier = [trial.residuals for trial in trials[:3]]
    test = trials[3].residuals + trials[4].residuals
    for level in (0.8, 0.95):
        assert recalibrate([*earlier, test], level, horizon).coverage == pytest.approx(level, abs=0.03)
