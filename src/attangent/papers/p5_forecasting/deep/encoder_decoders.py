"""Informer and Autoformer of transformers as maps from a window to its future.

Both are built to sample: they read lags and time features and return a distribution. Here there is one lag,
and the only time feature is the position in the window, so that they read nothing but the look-back. The
decoder gets the last value in place of the future, as in the one-pass decoding of Informer's authors. The
forecast is the mean of the distribution, trained by squared error like all others.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.papers.p5_forecasting.deep.attention_forecasters import Encoder, EncoderForecaster
from attangent.papers.p5_forecasting.deep.training import Training


class Informer(EncoderForecaster):
    """InformerForPrediction of transformers: attention of a few queries, chosen on sampled keys.

    Args:
        lookback: Number of values that a forecast sees, at least 3.
        horizon: Number of values to forecast.
        size: Size of encoder and decoder.
        training: Training settings.
    """

    def _module(self, channels: int) -> nn.Module:
        library = _transformers("Informer")
        config = library.InformerConfig(**_settings(self.lookback, self.horizon, channels, self.shape))
        return _MeanOfDistribution(library.InformerForPrediction(config), self.plan.seed)


class Autoformer(EncoderForecaster):
    """AutoformerForPrediction of transformers: auto-correlation after removing the trend; one head only.

    With more heads its inference pairs the delays of one window with the values of another, so that a
    forecast would depend on the other windows of the batch.

    Args:
        lookback: Number of values that a forecast sees, at least 3.
        horizon: Number of values to forecast.
        size: Size of encoder and decoder, with one head.
        training: Training settings.
    """

    def __init__(
        self, lookback: int, horizon: int, size: Encoder | None = None, training: Training | None = None
    ):
        super().__init__(lookback, horizon, size, training)
        if self.shape.heads != 1:
            raise AttangentError(
                f"heads is {self.shape.heads}, expected 1 for Autoformer: with more heads, transformers' "
                "inference mixes the windows of a batch; pass Encoder(heads=1)"
            )

    @property
    def shape(self) -> Encoder:
        """Size of the model, by default `Encoder(heads=1)`."""
        return self.size or Encoder(heads=1)

    def _module(self, channels: int) -> nn.Module:
        return autoformer_module(self.lookback, self.horizon, channels, self.shape, self.plan.seed)


def autoformer_module(lookback: int, horizon: int, channels: int, size: Encoder, seed: int) -> nn.Module:
    """Return Autoformer with any number of heads as a module from (B, lookback, C) to (B, horizon, C)."""
    library = _transformers("Autoformer")
    config = library.AutoformerConfig(
        **_settings(lookback, horizon, channels, size),
        label_length=max(1, (lookback - 1) // 2),
        moving_average=min(25, (lookback - 1) // 2 * 2 + 1),
    )
    return _MeanOfDistribution(library.AutoformerForPrediction(config), seed)


def _transformers(name: str) -> Any:
    try:
        import transformers
    except ImportError:
        raise AttangentError(f"{name} needs transformers: pip install 'attangent[adapters]'") from None
    return transformers


def _settings(lookback: int, horizon: int, channels: int, size: Encoder) -> dict[str, Any]:
    if lookback < 3:
        raise AttangentError(f"lookback is {lookback}, expected at least 3: one value is used for the lags")
    return {
        "context_length": lookback - 1,
        "prediction_length": horizon,
        "lags_sequence": [1],
        "input_size": channels,
        "num_time_features": 1,
        "distribution_output": "normal",
        "scaling": "std",
        "d_model": size.width,
        "encoder_attention_heads": size.heads,
        "decoder_attention_heads": size.heads,
        "encoder_layers": size.layers,
        "decoder_layers": size.layers,
        "encoder_ffn_dim": 2 * size.width,
        "decoder_ffn_dim": 2 * size.width,
        "dropout": size.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": size.dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "use_cache": False,
    }


class _MeanOfDistribution(nn.Module):
    """(B, L, C) -> (B, H, C): the mean of the output distribution, in one pass."""

    def __init__(self, model: Any, seed: int):
        super().__init__()
        self.model = model
        self.seed = seed

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self._mean(x)
        with torch.random.fork_rng(devices=[]):  # Informer draws keys in every pass
            torch.manual_seed(self.seed)
            return self._mean(x)

    def _mean(self, x: Tensor) -> Tensor:
        config = self.model.config
        single = config.input_size == 1  # transformers drops the axis of a single channel
        past = x[..., 0] if single else x
        last = past[:, -1:]
        steps = x.shape[1] + config.prediction_length
        position = torch.linspace(-1.0, 1.0, steps, dtype=x.dtype).expand(len(x), -1)[..., None]
        output = self.model(
            past_values=past,
            past_time_features=position[:, : x.shape[1]],
            past_observed_mask=torch.ones_like(past),
            future_values=last.repeat_interleave(config.prediction_length, dim=1),
            future_time_features=position[:, x.shape[1] :],
        )
        mean = output.params[0] * output.scale + output.loc
        return mean[..., None] if single else mean
