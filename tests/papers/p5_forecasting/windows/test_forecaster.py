import numpy as np
import pytest

from attangent import AttangentError
from attangent.papers.p5_forecasting.windows import forecaster
from attangent.papers.p5_forecasting.windows.forecaster import every_window, window_count
from tests.forecast.examples import waves


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
