import numpy as np
import pytest

from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.combination import PanelRequest, forecast_panel
from attangent.forecast.pipeline.evaluation import mase
from benchmarks.suites.forecast.competitions import Competition
from benchmarks.suites.forecast.single_series import alone

RNG = np.random.default_rng(0)


def test_every_series_is_forecast_by_itself():
    series = [100 + np.cumsum(RNG.normal(size=n + 6)) for n in (30, 24, 18)]
    data = Competition("m1_yearly", list("abc"), [s[:-6] for s in series], np.stack([s[-6:] for s in series]))
    found = alone(data, 3)
    expected = []
    for train, test in zip(data.train, data.test, strict=True):
        panel = Panel.of([train], 1)
        expected.append(mase(test[None], forecast_panel(panel, PanelRequest(6, 1)).forecasts, panel.scale))
    assert found["series"] == 3
    assert found["auto"] == pytest.approx(np.mean(expected))
    assert 0 < found["coverage 80"] <= found["coverage 95"] <= 1
    assert alone(data, 1)["series"] == 1
