"""Linear forecasters trained by gradient descent: NLinear, DLinear and RLinear."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.papers.p5_forecasting.deep.training import TrainedForecaster, Training


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
        self.lookback = lookback
        self.horizon = horizon
        self.training = training
        self._check_sizes()

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
        self.lookback = lookback
        self.horizon = horizon
        self.kernel = kernel
        self.training = training
        self._check_sizes()
        if check_size("kernel", kernel) % 2 == 0:
            raise AttangentError(f"kernel is {kernel}, expected an odd number")

    def _module(self, channels: int) -> nn.Module:
        return _Decomposed(self.lookback, self.horizon, self.kernel)
