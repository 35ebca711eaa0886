"""Forecasting: linear models in closed form, models trained by gradients, the benchmark protocol, diagnosis.

>>> import numpy as np
>>> from attangent.forecast import LinearForecaster
>>> wave = np.sin(np.arange(300.0))
>>> LinearForecaster(lookback=8, horizon=2).fit(wave[:200]).score(wave[200:]) > 0.99
True
"""

from attangent.forecast.attention_forecasters import (
    Encoder,
    InvertedTransformer,
    PatchTST,
    VanillaTransformer,
)
from attangent.forecast.attention_model import AttentionModel, Remedies, train_attention
from attangent.forecast.baselines import Persistence, SeasonalNaive, find_period
from attangent.forecast.dataset import Dataset, from_frame, load_csv
from attangent.forecast.diagnosis import Diagnosis, diagnose
from attangent.forecast.encoder_decoders import Autoformer, Informer
from attangent.forecast.forecaster import Forecaster
from attangent.forecast.frames import Table, read_frame
from attangent.forecast.linear import LinearForecaster
from attangent.forecast.linear_sgd import DLinear, NLinear, RLinear
from attangent.forecast.outlook import Outlook, forecast_frame
from attangent.forecast.protocol import compare, errors_by_step, evaluate
from attangent.forecast.ssm import ResidualSSM
from attangent.forecast.training import Training

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
