import pandas as pd
import pytest

from attangent import AttangentError
from attangent.data import sample
from attangent.data.samples import SAMPLES


def test_samples_are_small_and_whole():
    assert sum(sample(name).stat().st_size for name in SAMPLES) < 100_000
    weather = pd.read_csv(sample("weather"), parse_dates=["date"])
    assert len(weather) == 1461
    assert (weather.date.diff().dropna() == pd.Timedelta(days=1)).all()
    assert not weather.isna().any().any()
    employment = pd.read_csv(sample("employment"))
    assert employment.groupby("unique_id").size().tolist() == [120] * 22


def test_an_unknown_sample_is_refused():
    with pytest.raises(AttangentError, match="weather"):
        sample("wether")
