from dataclasses import replace

import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent.papers.p5_forecasting.deep.attention_forecasters import (
    Autoformer,
    Encoder,
    Informer,
    autoformer_module,
)
from attangent.papers.p5_forecasting.deep.training import Training
from tests.forecast.examples import waves

PLAN = Training(epochs=10, rate=3e-3, patience=10, lower_rate=False)
SIZE = Encoder(width=16, heads=1, layers=1)


def test_autoformer_learns_waves():
    train, held_out = waves(600, noise=0.02), waves(100, noise=0.02, seed=1)
    assert Autoformer(24, 6, SIZE, PLAN).fit(train, held_out).score(held_out) > 0.9


def test_informer_learns_waves():
    train, held_out = waves(600, noise=0.02), waves(300, noise=0.02, seed=1)
    plan = replace(PLAN, epochs=5)
    assert Informer(24, 6, SIZE, plan).fit(train, held_out).score(held_out) > 0.3


@pytest.mark.parametrize("maker", [Informer, Autoformer])
def test_a_forecast_moves_and_stretches_with_its_window(maker):
    model = maker(24, 6, SIZE, Training(epochs=1, batches=2)).fit(waves(300))
    answer = model.predict(waves(24))
    # level and spread of the window are taken off by the model's scaler and put back; the logarithms of both
    # are among its inputs, so that this is near and not exact
    moved = model.predict(3 * waves(24) + 5)
    np.testing.assert_allclose(moved, 3 * answer + 5, atol=0.5)


def test_why_autoformer_has_one_head():
    """With two heads a window's forecast depends on its neighbours; when this fails, allow more heads."""
    torch.manual_seed(0)
    windows = torch.as_tensor(np.stack([waves(24), waves(24, seed=5)[::-1]]), dtype=torch.float32)

    def depends_on_neighbours(heads):
        size = Encoder(width=8, heads=heads, layers=1)
        module = autoformer_module(24, 6, 2, size, 0).eval()
        with torch.no_grad():
            for weights in module.parameters():
                weights.normal_(0.0, 0.5)
            return (module(windows)[:1] - module(windows[:1])).abs().max().item() > 1e-2

    assert depends_on_neighbours(2)
    assert not depends_on_neighbours(1)
    with pytest.raises(AttangentError, match="heads is 4, expected 1 for Autoformer"):
        Autoformer(24, 6, Encoder(heads=4))


def test_a_look_back_that_leaves_nothing_for_the_lags_is_refused():
    with pytest.raises(AttangentError, match="lookback is 2, expected at least 3"):
        Informer(2, 1, SIZE, PLAN).fit(waves(100))


def test_informer_draws_the_same_keys_for_the_same_window():
    model = Informer(24, 6, SIZE, Training(epochs=1, batches=2)).fit(waves(300))
    torch.manual_seed(1)
    first = model.predict(waves(24))
    torch.manual_seed(2)
    np.testing.assert_array_equal(first, model.predict(waves(24)))
