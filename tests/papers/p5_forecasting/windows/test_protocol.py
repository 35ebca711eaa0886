import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.papers.p5_forecasting.deep.training import NLinear, Training
from attangent.papers.p5_forecasting.windows.forecaster import LinearForecaster, Persistence
from attangent.papers.p5_forecasting.windows.protocol import (
    compare_windows,
    evaluate_windows,
    from_frame,
    load_csv,
)
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


def test_every_test_window_counts_once(dataset):
    table = evaluate_windows(Persistence(10, 4), dataset)
    series = dataset.part("test", 10)
    errors = [series[t + 10 : t + 14] - series[t + 9] for t in range(97)]
    assert table.mse[0] == pytest.approx(np.square(errors).mean())
    assert table.mae[0] == pytest.approx(np.abs(errors).mean())
    np.testing.assert_allclose(table.mse[1:].astype(float), np.square(errors).mean(axis=(0, 2)))
    assert table.step.tolist() == ["all", 1, 2, 3, 4]
    assert table.test_windows[0] == 97
    assert (table.lookback[0], table.split[0], table.data[0]) == (10, "ltsf", dataset.digest)


def test_compare_gives_all_models_one_look_back(dataset):
    models = [
        Persistence(1, 1),
        LinearForecaster(1, 1, "mean"),
        NLinear(1, 1, Training(epochs=1, batches=2, seed=3)),
    ]
    table = compare_windows(models, [dataset], horizons=(2, 5), lookback=12)
    assert table[["model", "horizon", "lookback"]].to_numpy().tolist() == [
        [model, horizon, 12] for horizon in (2, 5) for model in ("Persistence", "LinearForecaster", "NLinear")
    ]
    assert table.seed.tolist()[2] == 3
