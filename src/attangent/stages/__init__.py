"""Two-stage learning: the model of P3, stages in a run of your own, and editing an attention spectrum."""

from attangent._gate import guard_arrays
from attangent.stages.detector.callback import stage_callback
from attangent.stages.detector.detector import StageDetector, find_stages
from attangent.stages.detector.sources import read_metrics
from attangent.stages.spectra.edit import edit_spectrum
from attangent.stages.spectra.effect import measure_effect, minus_loss
from attangent.stages.spectra.low_rank import load_low_rank
from attangent.stages.spectra.search import search_spectrum
from attangent.stages.spectra.singular_values import spectrum
from attangent.stages.theory.attention import ReluAttention
from attangent.stages.theory.data import TwoStageData
from attangent.stages.theory.floor import q_loss_bounds
from attangent.stages.theory.training import NoisySGD, train

__all__ = [
    "NoisySGD",
    "ReluAttention",
    "StageDetector",
    "TwoStageData",
    "edit_spectrum",
    "find_stages",
    "load_low_rank",
    "measure_effect",
    "minus_loss",
    "q_loss_bounds",
    "read_metrics",
    "search_spectrum",
    "spectrum",
    "stage_callback",
    "train",
]

guard_arrays(globals())
