import numpy as np
import pytest

from attangent import AttangentError
from attangent.forecast.data.panel import Logarithms, Panel


def test_series_end_together_longest_first():
    panel = Panel.of([np.arange(6.0), np.arange(4.0)], 1)
    assert panel.values[1, 2:].tolist() == [0, 1, 2, 3]
    assert np.isnan(panel.values[1, :2]).all()
    earlier = panel.before(2)
    assert len(earlier) == 1  # the second keeps two values only
    assert earlier.values.tolist() == [[0, 1, 2, 3]]
    assert panel.rows(1, 2).values.tolist() == [[0, 1, 2, 3]]
    assert panel.latest(3).lengths.tolist() == [3, 3]


def test_scale_is_that_of_mase_and_never_zero():
    rng = np.random.default_rng(0)
    long, short = rng.normal(size=20), rng.normal(size=4)
    panel = Panel.of([long, np.full(6, 7.0), np.zeros(5), short], 4)
    expected = [np.abs(long[4:] - long[:-4]).mean(), 7.0, 1.0, np.abs(np.diff(short)).mean()]
    np.testing.assert_allclose(panel.scale, expected)


@pytest.mark.parametrize("series", [[], [np.arange(2.0)], [np.arange(3.0), np.arange(4.0)]])
def test_too_short_or_out_of_order(series):
    with pytest.raises(AttangentError, match="at least 3 values, the longest first"):
        Panel.of(series, 1)
    with pytest.raises(AttangentError, match="finite"):
        Panel.of([np.array([1.0, np.nan, 2.0])], 1)


def test_values_whose_squares_are_no_numbers_are_refused():
    with pytest.raises(AttangentError, match="a value is 1e\\+120, expected at most 1e\\+100"):
        Panel.of([np.array([1.0, 2.0, 1e120])], 1)


def test_categories_follow_their_series():
    panel = Panel.of([np.arange(9.0), np.arange(6.0), np.arange(4.0)], 1, np.array([2, 0, 1]))
    assert panel.before(2).category.tolist() == [2, 0]
    assert panel.rows(1, 3).category.tolist() == [0, 1]
    assert panel.latest(3).category.tolist() == [2, 0, 1]
    with pytest.raises(AttangentError, match="2 categories were given for 1 series"):
        Panel.of([np.arange(4.0)], 1, np.array([0, 1]))


def test_logarithms_of_positive_series_only_and_back_within_reason():
    panel = Panel.of([np.array([1.0, np.e, np.e**2]), np.array([0.0, 1.0, 2.0])], 1)
    logs = Logarithms.of(panel)
    np.testing.assert_allclose(logs.panel.values[0], [0, 1, 2])
    assert logs.usable.tolist() == [True, False]
    otherwise = np.full((2, 2), -7.0)
    back = logs.back(np.array([[3.0, 99.0], [3.0, 99.0]]), otherwise)
    np.testing.assert_allclose(back[0], [np.e**3, np.e**4])  # one range above the highest
    assert back[1].tolist() == [-7.0, -7.0]


def test_the_last_value_and_the_last_season_are_repeated():
    repeated = Panel.of([np.arange(8.0), np.arange(3.0)], 4).repeated(6)
    assert repeated["persistence"].tolist() == [[7] * 6, [2] * 6]
    assert repeated["seasonal"].tolist() == [[4, 5, 6, 7, 4, 5], [2] * 6]
