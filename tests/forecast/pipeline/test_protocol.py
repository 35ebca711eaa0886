import numpy as np
import pandas as pd
import pytest

from attangent.forecast import LinearForecaster, Persistence, compare, evaluate, from_frame
from attangent.papers.p5_forecasting.deep.linear_sgd import NLinear
from attangent.papers.p5_forecasting.deep.training import Training
from tests.forecast.examples import waves


@pytest.fixture
def dataset():
    return from_frame(pd.DataFrame(waves(500), columns=["a", "b"]), "waves")


def test_every_test_window_counts_once(dataset):
    table = evaluate(Persistence(10, 4), dataset)
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
    table = compare(models, [dataset], horizons=(2, 5), lookback=12)
    assert table[["model", "horizon", "lookback"]].to_numpy().tolist() == [
        [model, horizon, 12] for horizon in (2, 5) for model in ("Persistence", "LinearForecaster", "NLinear")
    ]
    assert table.seed.tolist()[2] == 3
