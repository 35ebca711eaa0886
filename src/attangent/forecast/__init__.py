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

from attangent._core.gate import guard_arrays

if TYPE_CHECKING:
    from attangent.forecast.data.dataset import Dataset, from_frame, load_csv
    from attangent.forecast.data.frames import Table, read_frame
    from attangent.forecast.models.baselines import Persistence, SeasonalNaive, find_period
    from attangent.forecast.models.forecaster import Forecaster
    from attangent.forecast.models.linear import LinearForecaster
    from attangent.forecast.pipeline.diagnosis import Diagnosis, diagnose
    from attangent.forecast.pipeline.outlooks import Outlook
    from attangent.forecast.pipeline.panels.forecaster import SeriesForecaster
    from attangent.forecast.pipeline.protocol import compare, errors_by_step, evaluate
    from attangent.forecast.pipeline.targets import forecast_frame

_HOMES = {
    "Dataset": "data.dataset",
    "from_frame": "data.dataset",
    "load_csv": "data.dataset",
    "Table": "data.frames",
    "read_frame": "data.frames",
    "Persistence": "models.baselines",
    "SeasonalNaive": "models.baselines",
    "find_period": "models.baselines",
    "Forecaster": "models.forecaster",
    "LinearForecaster": "models.linear",
    "Diagnosis": "pipeline.diagnosis",
    "diagnose": "pipeline.diagnosis",
    "Outlook": "pipeline.outlooks",
    "SeriesForecaster": "pipeline.panels.forecaster",
    "compare": "pipeline.protocol",
    "errors_by_step": "pipeline.protocol",
    "evaluate": "pipeline.protocol",
    "forecast_frame": "pipeline.targets",
}

__all__ = [
    "Dataset",
    "Diagnosis",
    "Forecaster",
    "LinearForecaster",
    "Outlook",
    "Persistence",
    "SeasonalNaive",
    "SeriesForecaster",
    "Table",
    "compare",
    "diagnose",
    "errors_by_step",
    "evaluate",
    "find_period",
    "forecast_frame",
    "from_frame",
    "load_csv",
    "read_frame",
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
