"""Forecasting: many series at once, linear models in closed form, models trained by gradients, diagnosis.

Names are loaded on first use: who forecasts short series waits for neither torch nor scikit-learn.

>>> import numpy as np
>>> from attangent.forecast import LinearForecaster
>>> wave = np.sin(np.arange(300.0))
>>> LinearForecaster(lookback=8, horizon=2).fit(wave[:200]).score(wave[200:]) > 0.99
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attangent._gate import guard_arrays

if TYPE_CHECKING:
    from attangent.forecast.data.dataset import Dataset, from_frame, load_csv
    from attangent.forecast.data.frames import Table, read_frame
    from attangent.forecast.models.attention_forecasters import (
        Encoder,
        InvertedTransformer,
        PatchTST,
        VanillaTransformer,
    )
    from attangent.forecast.models.baselines import Persistence, SeasonalNaive, find_period
    from attangent.forecast.models.encoder_decoders import Autoformer, Informer
    from attangent.forecast.models.forecaster import Forecaster
    from attangent.forecast.models.linear import LinearForecaster
    from attangent.forecast.models.linear_sgd import DLinear, NLinear, RLinear
    from attangent.forecast.models.training import Training
    from attangent.forecast.outlook.diagnosis import Diagnosis, diagnose
    from attangent.forecast.outlook.outlooks import Outlook
    from attangent.forecast.outlook.panels.forecaster import SeriesForecaster
    from attangent.forecast.outlook.protocol import compare, errors_by_step, evaluate
    from attangent.forecast.outlook.targets import forecast_frame
    from attangent.forecast.theory.attention_model import AttentionModel, Remedies, train_attention
    from attangent.forecast.theory.ssm import ResidualSSM

_HOMES = {
    "Dataset": "data.dataset",
    "from_frame": "data.dataset",
    "load_csv": "data.dataset",
    "Table": "data.frames",
    "read_frame": "data.frames",
    "Encoder": "models.attention_forecasters",
    "InvertedTransformer": "models.attention_forecasters",
    "PatchTST": "models.attention_forecasters",
    "VanillaTransformer": "models.attention_forecasters",
    "Persistence": "models.baselines",
    "SeasonalNaive": "models.baselines",
    "find_period": "models.baselines",
    "Autoformer": "models.encoder_decoders",
    "Informer": "models.encoder_decoders",
    "Forecaster": "models.forecaster",
    "LinearForecaster": "models.linear",
    "DLinear": "models.linear_sgd",
    "NLinear": "models.linear_sgd",
    "RLinear": "models.linear_sgd",
    "Training": "models.training",
    "Diagnosis": "outlook.diagnosis",
    "diagnose": "outlook.diagnosis",
    "Outlook": "outlook.outlooks",
    "SeriesForecaster": "outlook.panels.forecaster",
    "compare": "outlook.protocol",
    "errors_by_step": "outlook.protocol",
    "evaluate": "outlook.protocol",
    "forecast_frame": "outlook.targets",
    "AttentionModel": "theory.attention_model",
    "Remedies": "theory.attention_model",
    "train_attention": "theory.attention_model",
    "ResidualSSM": "theory.ssm",
}

__all__ = [
    "AttentionModel",
    "Autoformer",
    "DLinear",
    "Dataset",
    "Diagnosis",
    "Encoder",
    "Forecaster",
    "Informer",
    "InvertedTransformer",
    "LinearForecaster",
    "NLinear",
    "Outlook",
    "PatchTST",
    "Persistence",
    "RLinear",
    "Remedies",
    "ResidualSSM",
    "SeasonalNaive",
    "SeriesForecaster",
    "Table",
    "Training",
    "VanillaTransformer",
    "compare",
    "diagnose",
    "errors_by_step",
    "evaluate",
    "find_period",
    "forecast_frame",
    "from_frame",
    "load_csv",
    "read_frame",
    "train_attention",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        loaded = {"__all__": [name], name: getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)}
        guard_arrays(loaded)
        globals()[name] = loaded[name]
        return loaded[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
