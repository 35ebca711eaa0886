"""Forecasters by the names the command line knows them by."""

import difflib
from collections.abc import Callable

from attangent._errors import AttangentError
from attangent.forecast.models.attention_forecasters import InvertedTransformer, PatchTST, VanillaTransformer
from attangent.forecast.models.baselines import Persistence, SeasonalNaive
from attangent.forecast.models.encoder_decoders import Autoformer, Informer
from attangent.forecast.models.forecaster import Forecaster
from attangent.forecast.models.linear import LinearForecaster
from attangent.forecast.models.linear_sgd import DLinear, NLinear, RLinear

Maker = Callable[[int, int], Forecaster]

MODELS: dict[str, Maker] = {
    "persistence": Persistence,
    "seasonal": SeasonalNaive,
    "linear": LinearForecaster,
    "linear-mean": lambda lookback, horizon: LinearForecaster(lookback, horizon, normalise="mean"),
    "linear-intercept": lambda lookback, horizon: LinearForecaster(lookback, horizon, intercept=None),
    "linear-none": lambda lookback, horizon: LinearForecaster(lookback, horizon, normalise="none"),
    "nlinear": NLinear,
    "dlinear": DLinear,
    "rlinear": RLinear,
    "transformer": VanillaTransformer,
    "itransformer": InvertedTransformer,
    "patchtst": PatchTST,
    "informer": Informer,
    "autoformer": Autoformer,
}

AUTO = ("persistence", "seasonal", "linear", "linear-mean", "linear-none")
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
