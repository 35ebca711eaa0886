"""Forecasters with attention over times, patches or channels; Informer and Autoformer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.checks import check_between, check_memory, check_size
from attangent._core.errors import AttangentError
from attangent.papers.p5_forecasting.deep.training import TrainedForecaster, Training, standardise


@dataclass(frozen=True)
class Encoder:
    """Size of a transformer encoder.

    Attributes:
        width: Size of a token, a multiple of `heads`.
        heads: Number of attention heads.
        layers: Number of layers.
        dropout: Dropout rate of hidden layers. Attention weights are not dropped: that would take four times
            as long.

    Example:
        >>> Encoder(width=32, heads=2).layers
        2
    """

    width: int = 64
    heads: int = 4
    layers: int = 2
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "heads", "layers"):
            check_size(name, getattr(self, name))
        check_between("dropout", self.dropout, 0.0, 0.99)
        if self.width % self.heads:
            raise AttangentError(f"width is {self.width}, expected a multiple of heads = {self.heads}")

    def build(self) -> nn.Module:
        """Return the encoder as a module from (B, tokens, width) to the same shape."""
        check_memory("the encoder", 4, layers=self.layers, width=self.width, weights_for_each=8 * self.width)
        layer = nn.TransformerEncoderLayer(
            self.width, self.heads, 2 * self.width, self.dropout, "gelu", batch_first=True
        )
        layer.self_attn.dropout = 0.0
        return nn.TransformerEncoder(layer, self.layers, enable_nested_tensor=False)


class _OverTimes(nn.Module):
    """One token per time: an embedding of all its channels, with learned positions."""

    def __init__(self, lookback: int, horizon: int, channels: int, size: Encoder):
        super().__init__()
        self.horizon = horizon
        self.embed = nn.Linear(channels, size.width)
        self.position = nn.Parameter(0.02 * torch.randn(lookback, size.width))
        self.encoder = size.build()
        self.head = nn.Linear(size.width, horizon * channels)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.encoder(self.embed(x) + self.position)  # (B, L, width)
        return self.head(tokens[:, -1]).unflatten(1, (self.horizon, -1))


class _OverChannels(nn.Module):
    """One token per channel: an embedding of its standardised window; attention mixes channels."""

    def __init__(self, lookback: int, horizon: int, size: Encoder):
        super().__init__()
        self.embed = nn.Linear(lookback, size.width)
        self.encoder = size.build()
        self.head = nn.Linear(size.width, horizon)

    def forward(self, x: Tensor) -> Tensor:
        mean, scale = standardise(x)
        tokens = self.encoder(self.embed(((x - mean) / scale).transpose(1, 2)))  # (B, C, width)
        return self.head(tokens).transpose(1, 2) * scale + mean


class EncoderForecaster(TrainedForecaster):
    """A transformer of a given size, trained with given settings."""

    def __init__(
        self, lookback: int, horizon: int, size: Encoder | None = None, training: Training | None = None
    ):
        super().__init__(lookback, horizon)
        self.size = size
        self.training = training

    @property
    def shape(self) -> Encoder:
        """Size of the encoder, by default `Encoder()`."""
        return self.size or Encoder()


class VanillaTransformer(EncoderForecaster):
    """Forecast from the last token of an encoder over single times, without a residual connection.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        size: Size of the encoder.
        training: Training settings.
    """

    def _module(self, channels: int) -> nn.Module:
        return _OverTimes(self.lookback, self.horizon, channels, self.shape)


class InvertedTransformer(EncoderForecaster):
    """Forecast with an encoder over channels, one embedding per channel, as iTransformer.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        size: Size of the encoder.
        training: Training settings.
    """

    def _module(self, channels: int) -> nn.Module:
        return _OverChannels(self.lookback, self.horizon, self.shape)


class PatchTST(EncoderForecaster):
    """PatchTSTForPrediction of transformers: independent channels, patches of 16, standardised windows.

    Args:
        lookback: Number of values that a forecast sees.
        horizon: Number of values to forecast.
        size: Size of the encoder.
        training: Training settings.
    """

    def _module(self, channels: int) -> nn.Module:
        library = _transformers("PatchTST")
        patch = min(16, self.lookback)
        config = library.PatchTSTConfig(
            num_input_channels=channels,
            context_length=self.lookback,
            prediction_length=self.horizon,
            patch_length=patch,
            patch_stride=max(1, patch // 2),
            d_model=self.shape.width,
            num_attention_heads=self.shape.heads,
            num_hidden_layers=self.shape.layers,
            ffn_dim=2 * self.shape.width,
            attention_dropout=0.0,
            ff_dropout=self.shape.dropout,
            head_dropout=self.shape.dropout,
            scaling="std",
            loss="mse",
        )
        return _Predictions(library.PatchTSTForPrediction(config))


class _Predictions(nn.Module):
    """Return the predictions of a transformers model as a tensor."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(past_values=x).prediction_outputs


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
