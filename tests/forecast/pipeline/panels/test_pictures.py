import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast import SeriesForecaster
from attangent.forecast.pipeline.panels.pictures import plot_set, write_report
from tests.forecast.pipeline.panels.test_forecaster import FRAME


@pytest.fixture(scope="module")
def made():
    model = SeriesForecaster().fit(FRAME)
    return model.series_, model.outlook(4, [80, 95])


def test_a_picture_of_several_series(made, tmp_path):
    plot_set(*made, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text.count('id="axes_') == 3
    with pytest.raises(AttangentError, match="ending in"):
        plot_set(*made, tmp_path / "a.txt")


def test_a_report_needs_nothing_else_and_runs_nothing(tmp_path):
    frame = FRAME.assign(unique_id=FRAME.unique_id.str.replace("s0", "<script>alert(1)</script>"))
    model = SeriesForecaster().fit(frame)
    found = model.outlook(4, [80])
    found.notes.append("<b>bold</b>")
    write_report(model.series_, found, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "Forecast of 3 series" in text
    assert "<td>combination, used</td>" in text
    assert "data:image/png;base64," in text
    assert "&lt;b&gt;bold" in text
    assert "<script" not in text
    assert "http" not in text
    with pytest.raises(AttangentError, match=r"ending in \.html"):
        write_report(model.series_, found, tmp_path / "a.pdf")


def test_numbered_series_are_drawn_too(tmp_path):
    frame = pd.DataFrame({"unique_id": 1, "ds": np.arange(30), "y": np.arange(30.0)})
    model = SeriesForecaster().fit(frame)
    plot_set(model.series_, model.outlook(3), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
