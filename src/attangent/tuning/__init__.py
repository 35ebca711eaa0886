"""Tune a Hugging Face model on your files and predict with the result."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.tuning.data.columns import TextColumns
    from attangent.tuning.folders.tuned import LabelPrediction, TunedModel, ValuePrediction, load_tuned
    from attangent.tuning.methods.settings import Method, adapt
    from attangent.tuning.pipeline import TuningRuns, tune
    from attangent.tuning.request import TrainingSettings, TuningRequest

__all__ = [
    "LabelPrediction",
    "Method",
    "TextColumns",
    "TrainingSettings",
    "TunedModel",
    "TuningRequest",
    "TuningRuns",
    "ValuePrediction",
    "adapt",
    "load_tuned",
    "tune",
]

_HOMES = {
    "LabelPrediction": "folders.tuned",
    "Method": "methods.settings",
    "TextColumns": "data.columns",
    "TrainingSettings": "request",
    "TunedModel": "folders.tuned",
    "TuningRequest": "request",
    "TuningRuns": "pipeline",
    "ValuePrediction": "folders.tuned",
    "adapt": "methods.settings",
    "load_tuned": "folders.tuned",
    "tune": "pipeline",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
