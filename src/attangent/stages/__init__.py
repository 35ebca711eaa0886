"""Stages in a training run, and spectra of a model's weights."""

from attangent._core.gate import guard_arrays
from attangent.stages.detector.callback import stage_callback
from attangent.stages.detector.detector import StageDetector, find_stages
from attangent.stages.detector.sources import read_metrics
from attangent.stages.spectra.singular_values import spectrum

__all__ = [
    "StageDetector",
    "find_stages",
    "read_metrics",
    "spectrum",
    "stage_callback",
]

guard_arrays(globals())
