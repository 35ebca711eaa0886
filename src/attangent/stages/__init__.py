"""Two-stage learning: the model of P3, stages in a run of your own, and editing an attention spectrum."""

from attangent.stages.detector.callback import stage_callback
from attangent.stages.detector.detector import StageDetector
from attangent.stages.spectra.edit import edit_spectrum
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
    "q_loss_bounds",
    "spectrum",
    "stage_callback",
    "train",
]
