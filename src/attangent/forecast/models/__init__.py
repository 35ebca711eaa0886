"""The registry of forecasters. A new one is a file with one class and a line here."""

from attangent.forecast.models.base import PanelModel
from attangent.forecast.models.folded import FoldedSeasons
from attangent.forecast.models.intermittent import Intermittent
from attangent.forecast.models.linear import Linear
from attangent.forecast.models.pooled_ridge import PooledRidge
from attangent.forecast.models.smoothing import Smoothing

MODELS: list[PanelModel] = [
    Smoothing(),
    PooledRidge(),
    FoldedSeasons(),
    Linear(),
    Intermittent(),
]
"""Forecasters in the order in which they run: a later one may fall back on those before it."""
