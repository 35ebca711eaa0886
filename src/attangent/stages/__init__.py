"""Two-stage learning: the model of P3, stages in a run of your own, and editing an attention spectrum."""

from attangent.stages.attention import ReluAttention
from attangent.stages.data import TwoStageData
from attangent.stages.floor import q_loss_bounds

__all__ = ["ReluAttention", "TwoStageData", "q_loss_bounds"]
