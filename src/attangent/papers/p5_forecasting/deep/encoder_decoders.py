"""transformers' own Informer and Autoformer as maps from a window to its future.

Both are built to sample: they read lags and time features and answer with a distribution. Here the lags are
those of one step, the only time feature is the place in the window, so that nothing but the look-back is
read; the decoder gets the last value in place of the future, as in the one-pass decoding of Informer's
authors; and the mean of the distribution is the forecast, trained by squared error as all others are.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.papers.p5_forecasting.deep.attention_forecasters import Encoder, EncoderForecaster
from attangent.papers.p5_forecasting.deep.training import Training


class Informer(EncoderForecaster):
    """transformers' InformerForPrediction: attention of few queries, chosen on sampled keys."""

    def _module(self, channels: int) -> nn.Module:
        library = _transformers("Informer")
        config = library.InformerConfig(**_settings(self.lookback, self.horizon, channels, self.shape))
        return _MeanOfDistribution(library.InformerForPrediction(config), self.plan.seed)


class Autoformer(EncoderForecaster):
    """transformers' AutoformerForPrediction: auto-correlation, with the trend taken off; one head only.

    With more heads its inference pairs the delays of one window with the values of another, so that a
    forecast would depend on the other windows of the batch.
    """

    def __init__(
        self, lookback: int, horizon: int, size: Encoder | None = None, training: Training | None = None
    ):
        super().__init__(lookback, horizon, size, training)
        if self.shape.heads != 1:
            raise AttangentError(
                f"heads is {self.shape.heads}, expected 1 for Autoformer: with more, transformers' inference "
                "mixes the windows of a batch; give Encoder(heads=1)"
            )

    @property
    def shape(self) -> Encoder:
        """The size that was given, or the usual one with one head."""
        return self.size or Encoder(heads=1)

    def _module(self, channels: int) -> nn.Module:
        return autoformer_module(self.lookback, self.horizon, channels, self.shape, self.plan.seed)


def autoformer_module(lookback: int, horizon: int, channels: int, size: Encoder, seed: int) -> nn.Module:
    """Autoformer with any number of heads, as a map (B, lookback, C) -> (B, horizon, C)."""
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
        raise AttangentError(f"lookback is {lookback}, expected at least 3: one value goes to the lags")
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
    """(B, L, C) -> (B, H, C): the mean that the model's output distribution has in one pass."""

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
        one = config.input_size == 1
        past, last = (x[..., 0], x[:, -1:, 0]) if one else (x, x[:, -1:])
        steps = x.shape[1] + config.prediction_length
        place = torch.linspace(-1.0, 1.0, steps, dtype=x.dtype).expand(len(x), -1)[..., None]
        found = self.model(
            past_values=past,
            past_time_features=place[:, : x.shape[1]],
            past_observed_mask=torch.ones_like(past),
            future_values=last.repeat_interleave(config.prediction_length, dim=1),
            future_time_features=place[:, x.shape[1] :],
        )
        mean = found.params[0] * found.scale + found.loc
        return mean[..., None] if one else mean
