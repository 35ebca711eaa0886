"""The curve of size against answers kept."""

import pytest

from attangent.compression.curve import draw_curve
from attangent.compression.size_search import Attempt


@pytest.mark.parametrize("asked", [0, 10])
def test_the_curve_is_a_picture(asked, tmp_path):
    attempts = [Attempt(16, 0, 3, asked, 0.3, 100, 1.0), Attempt(32, 5, 9, asked, 0.9, 200, 2.0)]
    draw_curve(attempts, 0.9, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_tokens_as_they_are_stand_beside_what_was_fitted():
    figure = draw_curve([Attempt(64, 0, 9, 10, 0.9, 100, 1.0)], 0.95, unfitted={32: 0.1, 64: 0.6})
    (axes,) = figure.axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert drawn["tokens as they are"] == [0.1, 0.6]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["32", "64"]
