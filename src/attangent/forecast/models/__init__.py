"""The registry of forecasters: one file with one class and one line here, or from an installed package."""

from attangent.forecast.models.base import PanelModel
from attangent.forecast.models.folded import FoldedSeasons
from attangent.forecast.models.intermittent import Intermittent
from attangent.forecast.models.linear import Linear
from attangent.forecast.models.pooled_ridge import PooledRidge
from attangent.forecast.models.smoothing import Smoothing

GROUP = "attangent.forecasters"
"""Group of the entry points by which packages add forecasters."""

MODELS: list[PanelModel] = [
    Smoothing(),
    PooledRidge(),
    FoldedSeasons(),
    Linear(),
    Intermittent(),
]
"""Forecasters in the order in which they run: a later one may fall back on those before it."""
