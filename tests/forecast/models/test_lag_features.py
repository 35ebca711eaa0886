import numpy as np
import pytest

from attangent.forecast.data.panel import Panel
from attangent.forecast.models import lag_features
from attangent.forecast.models.lag_features import Past, Windows, _origins

RNG = np.random.default_rng(0)
SERIES = [RNG.normal(size=60).cumsum(), RNG.normal(size=47).cumsum()]
PANEL = Panel.of(SERIES, 4, longer=20)


def slow(values, h, m, longer):
    """The features of one window and step by their definition; `values` end at the origin."""
    level = values[-m:].mean()
    spans = (2, 4, 8, 16) if m == 1 else (max(2, m // 3), 2 * m, 4 * m, 8 * m)
    row = [values[-1] - level, values[-2] - level, *(values[-k:].mean() - level for k in (*spans, 10**9))]
    if m > 1:
        phase = [values[j] for j in range(len(values) + h - 1 - -(-h // m) * m, -1, -m)]
        for seasons in (1, 2, 4, len(phase)):
            used = phase[:seasons]
            row.append(np.mean(used) - values[-len(used) * m :].mean())
    back = -(-h // longer) * longer
    then = values[: len(values) - back][-m:].mean()
    centre = len(values) + h - 1 - back
    row.append(values[centre] - then)
    for reach in (max(m // 2, 1), 2 * m):
        row.append(values[max(centre - reach, 0) : centre + reach + 1].mean() - then)
    return row


@pytest.mark.parametrize("period", [1, 4])
def test_features_are_those_of_their_definition(period):
    panel = Panel.of(SERIES, period, longer=20)
    rows, origins = np.array([0, 0, 1]), np.array([60, 52, 57])
    found, level = Past.of(panel).features(rows, origins, 6)
    for k, (row, origin) in enumerate(zip(rows, origins, strict=True)):
        values = panel.values[row, :origin]
        values = values[np.isfinite(values)]
        assert level[k] == pytest.approx(values[-period:].mean())
        for h in range(1, 7):
            np.testing.assert_allclose(found[k, h - 1], slow(values, h, period, 20), atol=1e-9)


def test_features_know_nothing_after_the_origin():
    rows, origins = np.array([0, 1]), np.array([50, 50])
    one, _ = Past.of(PANEL).features(rows, origins, 7)
    later = PANEL.values.copy()
    later[:, 50:] += 100
    other, _ = Past.of(Panel(later, PANEL.lengths, 4, longer=20)).features(rows, origins, 7)
    np.testing.assert_allclose(one, other)


def test_windows_are_thinned_evenly_and_hold_the_values_that_followed(monkeypatch):
    everywhere = np.ones(2, dtype=bool)
    rows, origins = _origins(PANEL, 5, everywhere, 10**6)
    assert len(rows) == (60 - 5 - 8 + 1) + (47 - 5 - 8 + 1)
    assert origins.max() == 55
    assert origins[rows == 1].min() == 13 + 8
    few, times = _origins(PANEL, 5, everywhere, 20)
    assert len(few) == pytest.approx(20, abs=3)
    assert set(np.diff(-times[few == 0])) == {5}
    windows = Windows.of(PANEL, 5, everywhere)
    back = windows.y[0] * windows.scale[0] + PANEL.values[0, 51:55].mean()
    np.testing.assert_allclose(back, PANEL.values[0, 55:])
    monkeypatch.setattr(lag_features, "MOST_WINDOWS", 20)
    assert len(Windows.of(PANEL, 5, everywhere).y) < 30


def test_a_longer_season_that_no_series_holds_adds_no_features():
    short = Panel.of([values[:30] for values in SERIES], 4, longer=20)
    assert Windows.of(short, 5, np.ones(2, dtype=bool)).last.shape == (2, 5, 11)
    assert Windows.of(PANEL, 5, np.ones(2, dtype=bool)).last.shape == (2, 5, 14)
