import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from attangent import AttangentError
from attangent.forecast import SeriesForecaster, forecast_frame
from tests.forecast.examples import waves
from tests.forecast.pipeline.test_forecaster import FRAME


@pytest.fixture(scope="module")
def made():
    return SeriesForecaster().fit(FRAME).outlook(4, [80, 95])


def test_a_picture_of_several_series(made, tmp_path):
    made.plot(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text.count('id="axes_') == 3
    with pytest.raises(AttangentError, match="ending in"):
        made.plot(tmp_path / "a.txt")


def test_numbered_series_are_drawn_too(tmp_path):
    frame = pd.DataFrame({"unique_id": 1, "ds": np.arange(30), "y": np.arange(30.0)})
    model = SeriesForecaster().fit(frame)
    model.outlook(3).plot(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_few_columns_are_drawn_below_each_other(tmp_path):
    found = forecast_frame(pd.DataFrame(waves(300), columns=["a", "b"]), ["a", "b"], 4, levels=[0.9])
    figure = found.plot(tmp_path / "a.png")
    assert len(figure.axes) == 2
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_finished_leaves_the_old_one(made, tmp_path, monkeypatch):
    def full(self, path, **kw):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(AttangentError, match="No space left"):
        made.plot(tmp_path / "a.png")
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == b"old"
