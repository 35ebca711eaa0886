"""Forecasters by the names the command line knows them by."""

import difflib
from collections.abc import Callable
from importlib import import_module

from attangent._core.errors import AttangentError
from attangent.forecast.models.baselines import Persistence, SeasonalNaive
from attangent.forecast.models.forecaster import Forecaster
from attangent.forecast.models.linear import LinearForecaster

Maker = Callable[[int, int], Forecaster]


def _trained(module: str, name: str) -> Maker:
    """A model that is trained by gradients; torch is imported when one is made."""

    def made(lookback: int, horizon: int) -> Forecaster:
        return getattr(import_module(f"attangent.forecast.models.{module}"), name)(lookback, horizon)

    return made


MODELS: dict[str, Maker] = {
    "persistence": Persistence,
    "seasonal": SeasonalNaive,
    "linear": LinearForecaster,
    "linear-mean": lambda lookback, horizon: LinearForecaster(lookback, horizon, normalise="mean"),
    "linear-intercept": lambda lookback, horizon: LinearForecaster(lookback, horizon, intercept=None),
    "linear-none": lambda lookback, horizon: LinearForecaster(lookback, horizon, normalise="none"),
    "nlinear": _trained("linear_sgd", "NLinear"),
    "dlinear": _trained("linear_sgd", "DLinear"),
    "rlinear": _trained("linear_sgd", "RLinear"),
    "transformer": _trained("attention_forecasters", "VanillaTransformer"),
    "itransformer": _trained("attention_forecasters", "InvertedTransformer"),
    "patchtst": _trained("attention_forecasters", "PatchTST"),
    "informer": _trained("encoder_decoders", "Informer"),
    "autoformer": _trained("encoder_decoders", "Autoformer"),
}

AUTO = ("persistence", "seasonal", "linear", "linear-mean", "linear-none", "linear-intercept")
"""What `auto` chooses from: models without training by gradients, simplest first."""


def make(name: str, lookback: int, horizon: int, period: int | None = None) -> Forecaster:
    """The forecaster of this name; `period` is for the seasonal one, which else finds its own."""
    if name == "seasonal" and period is not None and period <= lookback:
        return SeasonalNaive(lookback, horizon, period)
    if name not in MODELS:
        close = difflib.get_close_matches(name, MODELS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise AttangentError(
            f"unknown model {name!r}: {hint}expected auto, smoothing, theta, ridge, combination or one of "
            f"{', '.join(MODELS)}"
        )
    return MODELS[name](lookback, horizon)
