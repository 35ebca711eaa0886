import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.panels.forecast import forecast_panel
from attangent.forecast.pipeline.panels.known import forecast_known
from tests.forecast.models.panels.test_effects import made


def split(panel, columns, h):
    past, future = [c[:-h] for c in columns], [c[-h:] for c in columns]
    return panel.before(h), past, future, panel.values[:, -h:]


def test_columns_that_matter_are_used_and_lower_the_error():
    earlier, past, future, actual = split(*made(), 6)
    found = forecast_known(earlier, past, future, 6, (0.1, 0.9))
    plain = forecast_panel(earlier, 6)
    assert np.abs(found.forecasts - actual).mean() < 0.8 * np.abs(plain.forecasts - actual).mean()
    inside = (found.quantiles[..., 0] <= actual) & (actual <= found.quantiles[..., 1])
    assert inside.mean() > 0.6
    assert "with the covariates" in found.why


def test_columns_that_did_not_help_on_the_past_are_left_out():
    panel, columns = made(count=5, length=40, size=0.0)
    worse = [c.copy() for c in columns]
    for c, values in zip(worse, panel.values, strict=True):
        c[:-4, 0] = values[:-4]  # follows the series, then turns against it
        c[-4:, 0] = values[-5] - 9
    found = forecast_known(panel, worse, [np.full((4, 1), 1e3)] * 5, 4)
    np.testing.assert_array_equal(found.forecasts, forecast_panel(panel, 4).forecasts)
    assert "without" in found.why


def test_series_too_short_to_tell_are_forecast_without():
    short = Panel.of([np.array([1.0, 2.0, 3.0])], 1)
    found = forecast_known(short, [np.zeros((3, 1))], [np.zeros((2, 1))], 2)
    np.testing.assert_array_equal(found.forecasts, forecast_panel(short, 2).forecasts)
    assert "too short to tell" in found.why
