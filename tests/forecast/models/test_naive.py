import numpy as np

from attangent.forecast.data.panel import Panel
from attangent.forecast.models.naive import Naive


def test_the_last_value_and_the_last_season_are_repeated():
    panel = Panel.of([np.arange(8.0), np.arange(3.0)], 4)
    found = Naive().forecast(panel, 6, {})
    assert found["persistence"].tolist() == [[7] * 6, [2] * 6]
    assert found["seasonal"].tolist() == [[4, 5, 6, 7, 4, 5], [2] * 6]
