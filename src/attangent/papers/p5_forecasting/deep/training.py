"""The trainer of forecasters that are trained by gradient descent, and the linear ones."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from attangent._core.checks import check_between, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.progress import track
from attangent._core.random import generator
from attangent.papers.p5_forecasting.windows.forecaster import Forecaster, window_count

Array = NDArray[np.float64]

FEW_BATCHES = 100


@dataclass(frozen=True)
class Training:
    """Adam on random batches of windows, with early stopping on the validation error.

    Training ends when the validation error has not fallen for `patience` epochs, and returns the best
    weights. The rate follows no schedule: one that falls by itself would end training whether or not there
    was more to learn.

    Attributes:
        epochs: Largest number of epochs.
        batch: Number of windows per batch.
        rate: Learning rate. None: 1e-3, or 1e-2 if all windows make fewer than 100 batches, because few
            steps have to be large.
        patience: Number of epochs without a lower validation error after which training ends.
        weight_decay: Weight decay of Adam.
        lower_rate: Whether to undo an epoch that did not lower the error and divide the rate by four.
        batches: Number of batches per epoch. None: every window once.
        validation_windows: Largest number of evenly spaced windows in the validation error. None: all.
        seed: Seed of weights and batches.
        progress: Whether to show a progress bar.

    Example:
        >>> Training(epochs=5).rate_for(windows=10_000)
        0.001
    """

    epochs: int = 10
    batch: int = 32
    rate: float | None = None
    patience: int = 3
    weight_decay: float = 0.0
    lower_rate: bool = True
    batches: int | None = None
    validation_windows: int | None = None
    seed: int = 0
    progress: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience"):
            check_steps(name, getattr(self, name), least=1)
        for name in ("batches", "validation_windows"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        if self.rate is not None:
            check_between("rate", self.rate, 1e-12, 1e6)
        check_between("weight_decay", self.weight_decay, 0.0, 1e6)

    def rate_for(self, windows: int) -> float:
        """Return the rate of the first epoch.

        Args:
            windows: Number of windows to train on.
        """
        if self.rate is not None:
            return self.rate
        return 1e-2 if windows < FEW_BATCHES * self.batch else 1e-3


class TrainedForecaster(Forecaster):
    """A torch module from (B, lookback, C) to (B, horizon, C), trained in float32 by `train_module`."""

    training: Training | None

    @property
    def plan(self) -> Training:
        """Training settings, by default `Training()`."""
        return self.training or Training()

    def _module(self, channels: int) -> nn.Module:
        """Return a new module; the caller sets torch's seed."""
        raise NotImplementedError

    def _fit(self, train: Array, validation: Array | None) -> None:
        if validation is None:
            cut = len(train) - max(len(train) // 5, self.horizon)
            if cut < self.lookback + self.horizon:
                raise AttangentError(
                    f"train has {len(train)} times, too few to hold out a fifth for early stopping; pass a "
                    "validation series or a shorter look-back or horizon"
                )
            validation = train[cut - self.lookback :]
            train = train[:cut]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.plan.seed)
            module = self._module(train.shape[1])
            self.history_ = train_module(module, train, validation, self.lookback, self.horizon, self.plan)
        self.module_ = module.eval()

    def _predict(self, windows: Array) -> Array:
        return predict_module(self.module_, windows)


def train_module(
    module: nn.Module, train: Array, validation: Array, lookback: int, horizon: int, plan: Training
) -> list[float]:
    """Train in place, restore the best weights, and return the validation error after each epoch."""
    windows = _Windows(train, lookback, horizon)
    held_out = _Windows(validation, lookback, horizon)
    rng = generator(plan.seed, "batches")
    rate = plan.rate_for(windows.count)
    optimiser = torch.optim.Adam(module.parameters(), rate, weight_decay=plan.weight_decay)
    history: list[float] = []
    best = float("inf")
    best_weights = copy.deepcopy(module.state_dict())
    for _ in track(range(plan.epochs), "training", quiet=not plan.progress):
        _train_epoch(module, windows, optimiser, plan, rng)
        history.append(_error(module, held_out, plan.validation_windows))
        if history[-1] < best:
            best = history[-1]
            best_weights = copy.deepcopy(module.state_dict())
        elif epochs_since_best(history) >= plan.patience:
            break
        elif plan.lower_rate:
            module.load_state_dict(best_weights)
            for group in optimiser.param_groups:
                group["lr"] /= 4
    module.load_state_dict(best_weights)
    return history


def epochs_since_best(history: Sequence[float]) -> int:
    """Return the number of epochs since the lowest validation error."""
    return len(history) - 1 - int(np.argmin(history))


class _Windows:
    """Windows of a series by number, in float32; a batch is copied when it is indexed."""

    def __init__(self, series: Array, lookback: int, horizon: int):
        self.lookback = lookback
        self.count = window_count(len(series), lookback, horizon)
        self._views = torch.as_tensor(series, dtype=torch.float32).unfold(0, lookback + horizon, 1)

    def __getitem__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        windows = self._views[rows].transpose(1, 2)
        return windows[:, : self.lookback], windows[:, self.lookback :]


def _train_epoch(
    module: nn.Module, windows: _Windows, optimiser: Any, plan: Training, rng: torch.Generator
) -> None:
    module.train()
    order = torch.randperm(windows.count, generator=rng)
    for rows in order.split(plan.batch)[: plan.batches]:
        inputs, targets = windows[rows]
        loss = (module(inputs) - targets).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def _error(module: nn.Module, windows: _Windows, most: int | None, batch: int = 256) -> float:
    module.eval()
    total = count = 0.0
    stride = -(-windows.count // (most or windows.count))
    for rows in torch.arange(0, windows.count, stride).split(batch):
        inputs, targets = windows[rows]
        error = (module(inputs) - targets).square()
        total = total + error.sum().item()
        count = count + error.numel()
    return total / count


@torch.no_grad()
def predict_module(module: nn.Module, windows: Array, batch: int = 256) -> Array:
    """Apply a module to windows (n, L, C) in batches."""
    inputs = torch.as_tensor(np.ascontiguousarray(windows), dtype=torch.float32)
    return torch.cat([module(rows) for rows in inputs.split(batch)]).double().numpy()


class _AlongTime(nn.Module):
    """A linear map along time, shared by all channels: (B, L, C) -> (B, H, C)."""

    def __init__(self, lookback: int, horizon: int):
        super().__init__()
        self.map = nn.Linear(lookback, horizon)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x.transpose(1, 2)).transpose(1, 2)


class _LastValue(_AlongTime):
    def forward(self, x: Tensor) -> Tensor:
        level = x[:, -1:]
        return super().forward(x - level) + level


class _Decomposed(nn.Module):
    def __init__(self, lookback: int, horizon: int, kernel: int):
        super().__init__()
        self.kernel = kernel
        self.trend = _AlongTime(lookback, horizon)
        self.rest = _AlongTime(lookback, horizon)

    def forward(self, x: Tensor) -> Tensor:
        half = (self.kernel - 1) // 2
        padded = functional.pad(x.transpose(1, 2), (half, half), mode="replicate")
        trend = functional.avg_pool1d(padded, self.kernel, stride=1).transpose(1, 2)
        return self.trend(trend) + self.rest(x - trend)


class _Standardised(_AlongTime):
    def forward(self, x: Tensor) -> Tensor:
        mean, scale = standardise(x)
        return super().forward((x - mean) / scale) * scale + mean


def standardise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation per window and channel, (B, 1, C)."""
    scale = x.var(dim=1, keepdim=True, correction=0).add(1e-5).sqrt()
    return x.mean(dim=1, keepdim=True), scale


class _LinearBySGD(TrainedForecaster):
    _build: Callable[[int, int], nn.Module]

    def __init__(self, lookback: int, horizon: int, training: Training | None = None):
        super().__init__(lookback, horizon)
        self.training = training

    def _module(self, channels: int) -> nn.Module:
        return type(self)._build(self.lookback, self.horizon)


class NLinear(_LinearBySGD):
    """y = W (x - x_L) + b + x_L: the residual linear network, trained by Adam.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        training: Training settings.
    """

    _build = _LastValue


class RLinear(_LinearBySGD):
    """y = s (W (x - mean)/s + b) + mean, with mean and scale s of each window.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        training: Training settings.
    """

    _build = _Standardised


class DLinear(TrainedForecaster):
    """y = W1 trend(x) + W2 (x - trend(x)) + b, the trend a moving average of `kernel` values.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        kernel: Odd width of the moving average.
        training: Training settings.
    """

    def __init__(self, lookback: int, horizon: int, kernel: int = 25, training: Training | None = None):
        super().__init__(lookback, horizon)
        self.kernel = kernel
        self.training = training
        if check_size("kernel", kernel) % 2 == 0:
            raise AttangentError(f"kernel is {kernel}, expected an odd number")

    def _module(self, channels: int) -> nn.Module:
        return _Decomposed(self.lookback, self.horizon, self.kernel)
