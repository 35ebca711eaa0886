import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast import from_frame, load_csv
from tests.forecast.examples import ett, waves


@pytest.fixture
def dataset():
    return from_frame(pd.DataFrame(waves(500), columns=["a", "b"]), "waves")


def test_split_and_standardisation(dataset):
    assert dataset.ends == (350, 400, 500)
    np.testing.assert_allclose(dataset.part("train").mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(dataset.part("train").std(axis=0), 1)
    np.testing.assert_allclose(dataset.values * dataset.scale + dataset.mean, waves(500))
    assert len(dataset.part("test", 30)) == 130
    assert np.array_equal(dataset.part("test", 30)[30:], dataset.part("test"))


def test_the_digest_tells_data_apart(dataset):
    other = from_frame(pd.DataFrame(waves(500, seed=1), columns=["a", "b"]), "waves")
    assert other.digest != dataset.digest


def test_ett_split(tmp_path):
    data = load_csv(ett("ETTh1"), split="ett")
    assert data.ends == (8640, 11520, 14400)
    assert data.columns[-1] == "OT"
    with pytest.raises(AttangentError, match="expected 20 months"):
        from_frame(pd.DataFrame(waves(100)), "short", "ett")


def test_quarter_hours_make_longer_months():
    index = pd.date_range("2016-07-01", periods=20 * 2880, freq="15min")
    data = from_frame(pd.DataFrame({"v": np.arange(len(index))}, index=index), "m", "ett")
    assert data.ends == (34560, 46080, 57600)


def test_refusals(dataset):
    with pytest.raises(AttangentError, match="which is 'dev', expected one of train"):
        dataset.part("dev")
    with pytest.raises(AttangentError, match="look-back of 400 reaches before"):
        dataset.part("validation", 400)
    with pytest.raises(AttangentError, match="split is '6/2/2'"):
        load_csv("x.csv", split="6/2/2")
