"""Pictures of stages."""

import pytest

from attangent import AttangentError
from attangent.stages import StageDetector
from attangent.stages.detector.plots import plot_stages


def test_pictures(tmp_path):
    detector = StageDetector(["a"])
    with pytest.raises(AttangentError, match="no readings yet"):
        plot_stages(detector, tmp_path / "a.png")
    for step in range(30):
        detector.update(step, {"a": max(0.0, min(2.0, 3 - step / 5))})
    plot_stages(detector, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
