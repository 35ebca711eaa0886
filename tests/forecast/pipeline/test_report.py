import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast import SeriesForecaster
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.evaluation import QUANTILES
from attangent.forecast.pipeline.report import HeldBack, bars, page, picture, readable, write_report
from tests.forecast.pipeline.test_forecaster import FRAME

HOSTILE = """"><script>alert(1)</script><img src=x onerror='alert(2)'>{{ 7 * 7 }}"""


class Tags(HTMLParser):
    """Names of all tags and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.names = []
        self.attributes = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def made():
    frame = FRAME.assign(unique_id=FRAME.unique_id.str.replace("s0", HOSTILE))
    model = SeriesForecaster().fit(frame)
    result = model.outlook(4, [80])
    table = model.cross_validation(None, 4, level=[80], quantiles=QUANTILES)
    return result, HeldBack.of(table, result, model.period_), table


def test_a_report_runs_nothing_but_its_own_search(made, tmp_path):
    result, held_back, _ = made
    result.notes.append("<b>bold</b>")
    write_report(result, tmp_path / "a.html", held_back, "attangent forecast <x>")
    text = (tmp_path / "a.html").read_text()
    tags = Tags(text)
    assert tags.names.count("script") == 1
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert "img" not in tags.names
    assert "b" in tags.names
    assert "&lt;b&gt;bold" in text
    assert "forecast &lt;x&gt;" in text
    assert "{{ 7 * 7 }}" in text  # the name is text, not a template
    assert "http:" not in text
    assert "https:" not in text
    with pytest.raises(AttangentError, match=r"ending in \.html"):
        write_report(result, tmp_path / "a.pdf")


def test_a_few_series_are_drawn_once_and_the_step_is_named(made):
    result, held_back, _ = made
    text = page(result, held_back, "")
    assert text.count("<figcaption>") == 3
    assert "Series with the largest errors" not in text
    assert "4 steps of a month" in text


def test_it_says_the_measures_of_the_held_back_values(made):
    result, held_back, table = made
    text = page(result, held_back, "")
    errors = (table.y - table.attangent).abs().to_numpy().reshape(3, 4)
    known = [values[:-4] for values in result.series.series]
    scale = np.array([Panel.of([values], held_back_period(result)).scale[0] for values in known])
    mase = (errors / scale[:, None]).mean()
    assert f"<b>{mase:.3f}</b>MASE" in text
    inside = ((table["attangent-lo-80"] <= table.y) & (table.y <= table["attangent-hi-80"])).mean()
    assert f"<b>{100 * inside:.0f} %</b>within 80 % intervals" in text
    assert text.count("<rect") == 4  # a bar per step
    assert text.count("<tr><td title=") == 3


def held_back_period(result):
    return SeriesForecaster().fit(FRAME).period_


def test_series_too_short_to_hold_anything_back():
    frame = pd.DataFrame(
        {"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=5), "y": [1.0, 2, 3, 4, 5]}
    )
    result = SeriesForecaster().fit(frame).outlook(4, [80])
    text = page(result, None, "")
    assert "No series is long enough to hold 4 values back" in text
    assert "Series with the largest errors" not in text


def test_pictures_stay_in_their_box_and_bars_have_their_size():
    drawn = str(picture([("past", 0, np.array([3.0, 9.0, 4.0]))], None, 3, (100, 40)))
    points = [float(x) for x in re.findall(r"-?[0-9.]+", drawn.split('points="')[1])]
    assert min(points) >= 0
    assert max(points[::2]) <= 100
    assert max(points[1::2]) <= 40
    heights = [float(x) for x in re.findall(r'height="([0-9.]+)"', str(bars(np.array([1.0, 2.0]))))]
    assert heights == [45.0, 90.0]
    assert readable(1234.5) == "1,234"
