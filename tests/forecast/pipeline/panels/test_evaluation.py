import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast.data.long_frames import read_long
from attangent.forecast.data.panel import Panel, seasonal_scale
from attangent.forecast.pipeline.panels.evaluation import evaluate_models
from attangent.forecast.pipeline.panels.metrics import mase
from tests.forecast.pipeline.panels.test_forecaster import FRAME, long_frame


def test_all_models_with_the_best_first():
    found = evaluate_models(read_long(FRAME), 6, 12)
    assert found.table.index[0] == found.winner
    assert found.table.mase.is_monotonic_increasing
    assert {"auto", "theta", "ridge", "seasonal"} <= set(found.table.index)
    given = read_long(FRAME)
    order = sorted(given.series, key=len, reverse=True)
    panel = Panel.of([one[:-6] for one in order], 12)
    actual = np.stack([one[-6:] for one in order])
    last = np.repeat(panel.values[:, -1:], 6, axis=1)
    assert found.table.mase["persistence"] == pytest.approx(mase(actual, last, seasonal_scale(panel)).mean())
    assert found.table["within 95 %"].between(0.5, 1).all()


def test_series_too_short_to_hold_out_are_counted_and_all_too_short_refused():
    found = evaluate_models(read_long(long_frame((60, 40, 7))), 6, 12, windows=2)
    assert (found.series, found.left_out, found.windows) == (2, 1, 2)
    with pytest.raises(AttangentError, match=r"expected at least windows x horizon \+ 3 = 69"):
        evaluate_models(read_long(FRAME), 66, 12)
