import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.panels.transform import Logarithms


def test_logarithms_of_positive_series_only_and_back_within_reason():
    panel = Panel.of([np.array([1.0, np.e, np.e**2]), np.array([0.0, 1.0, 2.0])], 1)
    logs = Logarithms.of(panel)
    np.testing.assert_allclose(logs.panel.values[0], [0, 1, 2])
    assert logs.usable.tolist() == [True, False]
    otherwise = np.full((2, 2), -7.0)
    back = logs.back(np.array([[3.0, 99.0], [3.0, 99.0]]), otherwise)
    np.testing.assert_allclose(back[0], [np.e**3, np.e**4])  # one range above the highest
    assert back[1].tolist() == [-7.0, -7.0]
