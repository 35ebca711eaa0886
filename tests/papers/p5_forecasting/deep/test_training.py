import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent.papers.p5_forecasting.deep import training
from attangent.papers.p5_forecasting.deep.training import NLinear, Training, epochs_since_best, train_module
from tests.forecast.examples import waves


def test_training_stops_and_keeps_the_best_weights():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 2), torch.nn.Unflatten(1, (2, 1)))
    train, held_out = (
        np.random.default_rng(0).normal(size=(60, 1)),
        np.random.default_rng(1).normal(size=(60, 1)),
    )
    plan = Training(epochs=60, patience=2, rate=0.1, lower_rate=False)
    history = train_module(module, train, held_out, 8, 2, plan)
    assert len(history) < 60
    assert len(history) - 1 - int(np.argmin(history)) == 2
    windows = np.lib.stride_tricks.sliding_window_view(held_out[:, 0], 10)
    inputs = torch.as_tensor(windows[:, :8].copy(), dtype=torch.float32)[..., None]
    error = (module(inputs)[..., 0].detach().double().numpy() - windows[:, 8:]) ** 2
    assert error.mean() == pytest.approx(min(history), rel=1e-5)


def test_fitting_leaves_the_callers_random_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    NLinear(8, 2, Training(epochs=1, batches=1)).fit(waves(80))
    assert torch.equal(torch.rand(3), expected)


def test_seeds_differ():
    first, second = (NLinear(8, 2, Training(epochs=1, batches=2, seed=s)).fit(waves(80)) for s in (0, 1))
    assert not np.allclose(first.predict(waves(8)), second.predict(waves(8)))


def test_a_series_too_short_to_stop_early_on():
    with pytest.raises(AttangentError, match="too few to hold out a fifth"):
        NLinear(8, 4, Training(epochs=1)).fit(waves(13))


@pytest.mark.parametrize(
    "changes", [{"epochs": 0}, {"rate": 0.0}, {"batches": 0}, {"validation_windows": -1}]
)
def test_plans_are_checked_on_creation(changes):
    with pytest.raises(AttangentError, match=next(iter(changes))):
        Training(**changes)


def test_the_default_rate_fits_small_data_too():
    series = np.cumsum(np.random.default_rng(0).normal(size=(300, 1)), axis=0) + 8 * waves(300, 1)
    default, large = (NLinear(24, 12, Training(rate=rate)).fit(series[:240]) for rate in (None, 1e-2))
    small = NLinear(24, 12, Training(rate=1e-3)).fit(series[:240])
    left = [1 - model.score(series[200:]) for model in (default, large, small)]
    assert left[0] == pytest.approx(left[1], rel=1e-6)
    assert left[0] < 0.9 * left[2]
    assert Training().rate_for(8209) == 1e-3  # ETT at look-back 336


def test_the_rate_falls_only_where_the_validation_error_has_not(monkeypatch):
    errors = iter([3.0, 2.0, 2.5, 1.0, 1.5, 1.6, 1.7])
    monkeypatch.setattr(training, "_error", lambda *given: next(errors))
    rates = []

    def record(module, windows, optimiser, plan, rng):
        rates.append(optimiser.param_groups[0]["lr"])

    monkeypatch.setattr(training, "_train_epoch", record)
    plan = Training(epochs=20, rate=0.16, patience=3)
    history = train_module(torch.nn.Linear(8, 2), waves(60), waves(60), 8, 2, plan)
    assert rates == pytest.approx([0.16, 0.16, 0.16, 0.04, 0.04, 0.01, 0.0025])
    assert epochs_since_best(history) == 3


def test_an_epoch_that_did_not_help_is_undone(monkeypatch):
    errors = iter([1.0, 2.0, 0.5, 3.0])
    monkeypatch.setattr(training, "_error", lambda *given: next(errors))
    seen = []

    def add_one(module, windows, optimiser, plan, rng):
        seen.append(module.bias.item())
        torch.nn.init.constant_(module.bias, seen[-1] + 1)

    monkeypatch.setattr(training, "_train_epoch", add_one)
    module = torch.nn.Linear(8, 1)
    torch.nn.init.zeros_(module.bias)
    train_module(module, waves(60), waves(60), 8, 2, Training(epochs=4, rate=0.1))
    assert seen == [0.0, 1.0, 1.0, 2.0]
    assert module.bias.item() == 2.0
