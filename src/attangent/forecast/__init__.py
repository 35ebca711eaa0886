"""Forecasting: many series at once, linear models in closed form, models trained by gradients, diagnosis.

>>> import numpy as np
>>> from attangent.forecast import LinearForecaster
>>> wave = np.sin(np.arange(300.0))
>>> LinearForecaster(lookback=8, horizon=2).fit(wave[:200]).score(wave[200:]) > 0.99
True
"""

from attangent._gate import guard_arrays
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

guard_arrays(globals())
