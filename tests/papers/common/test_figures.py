"""Figures of claims."""

import pytest

from attangent.audit.finding import Series
from attangent.papers.common.figures import plot


@pytest.mark.parametrize(("log", "axes"), [("", (False, False)), ("x", (True, False)), ("xy", (True, True))])
def test_axes_are_logarithmic_as_asked(log, axes):
    figure = plot("Loss", ("step", "loss"), Series.of("run", [1, 2], [2.0, 1.0]), log=log)
    assert (figure.log_x, figure.log_y) == axes
    assert (figure.x_label, figure.y_label, len(figure.series)) == ("step", "loss", 1)
