"""Two-stage learning: the model of P3, stages in a run of your own, and editing an attention spectrum."""

from attangent.stages.attention import ReluAttention
from attangent.stages.callback import stage_callback
from attangent.stages.data import TwoStageData
from attangent.stages.detector import StageDetector
from attangent.stages.edit import edit_spectrum
from attangent.stages.floor import q_loss_bounds
from attangent.stages.spectrum import spectrum  # hides the module of the same name, as it should
from attangent.stages.training import NoisySGD, train

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
