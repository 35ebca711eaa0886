import pandas as pd
import pytest
from matplotlib.figure import Figure

from attangent import AttangentError
from attangent.forecast.pipeline.plot import plot_outlooks
from attangent.forecast.pipeline.targets import forecast_frame
from tests.forecast.examples import waves


@pytest.fixture(scope="module")
def drawn():
    frame = pd.DataFrame(waves(300), columns=["a", "b"])
    return frame, forecast_frame(frame, ["a", "b"], 4, lookback=24, levels=[0.9])


def test_a_picture_by_its_ending(drawn, tmp_path):
    plot_outlooks(*drawn, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(AttangentError, match=r"ending in \.png"):
        plot_outlooks(*drawn, tmp_path / "a.doc")


def test_a_picture_that_cannot_be_finished_leaves_the_old_one(drawn, tmp_path, monkeypatch):
    def full(self, path, **kw):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(AttangentError, match="No space left"):
        plot_outlooks(*drawn, tmp_path / "a.png")
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == b"old"
