"""Forecast one series or many, with prediction intervals.

Names are imported on first use; forecasting needs neither torch nor scikit-learn.
"""

from typing import TYPE_CHECKING, Any, Literal

from attangent._core.deprecation import moved_names
from attangent._core.errors import AttangentError
from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.forecast.pipeline.evaluation import Evaluation, evaluate
    from attangent.forecast.pipeline.forecaster import SeriesForecaster, forecast_frame
    from attangent.forecast.pipeline.result import SeriesForecast

ModelName = Literal[
    "auto", "combination", "smoothing", "theta", "ridge", "folded", "linear", "intermittent",
    "seasonal", "persistence",
]  # fmt: skip
"""Names of the models."""
Gaps = Literal["auto", "zero", "interpolate", "skip"]
"""Meaning of a missing row; "auto" decides per series between zero and interpolation."""
Reconcile = Literal["mint", "bottom-up"]
"""How the totals of a hierarchy become sums: all levels adjust, or the series are summed."""

__all__ = [
    "Evaluation",
    "Gaps",
    "ModelName",
    "Reconcile",
    "SeriesForecast",
    "SeriesForecaster",
    "evaluate",
    "forecast_frame",
]

_HOMES = {
    "Evaluation": "pipeline.evaluation",
    "SeriesForecast": "pipeline.result",
    "SeriesForecaster": "pipeline.forecaster",
    "evaluate": "pipeline.evaluation",
    "forecast_frame": "pipeline.forecaster",
}
_P5 = "attangent.papers.p5_forecasting"
_MOVED = {
    **{
        name: f"{_P5}:{name}"
        for name in (
            *("AttentionModel", "Autoformer", "DLinear", "Dataset", "Encoder", "Forecaster", "Informer"),
            *("InvertedTransformer", "LinearForecaster", "NLinear", "PatchTST", "Persistence", "RLinear"),
            *("Remedies", "ResidualSSM", "SeasonalNaive", "Training", "VanillaTransformer"),
            *("errors_by_step", "find_period", "from_frame", "load_csv", "train_attention"),
        )
    },
    "compare": f"{_P5}:compare_windows",
    "Outlook": "attangent.forecast:SeriesForecast",
}
_REMOVED = {
    "diagnose": "use evaluate(...), which compares all models on held-out values",
    "Diagnosis": "use evaluate(...), which returns an Evaluation",
    "read_frame": "pass the file to forecast_frame or SeriesForecaster(id_col=None)",
    "Table": "pass the file to forecast_frame or SeriesForecaster(id_col=None)",
}
_public, __dir__ = lazy_names(__name__, _HOMES)
_moved = moved_names(__name__, "0.2", _MOVED)


def __getattr__(name: str) -> Any:
    if name in _REMOVED:
        raise AttangentError(f"attangent.forecast.{name} was removed; {_REMOVED[name]}")
    return _moved(name) if name in _MOVED else _public(name)
