"""P3: attention that learns an easy pattern before a hard one, facts that a model learns, and edits of its spectrum."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p3_two_stage.low_rank import load_low_rank
    from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum
    from attangent.papers.p3_two_stage.theory.attention import ReluAttention
    from attangent.papers.p3_two_stage.theory.data import TwoStageData
    from attangent.papers.p3_two_stage.theory.floor import q_loss_bounds
    from attangent.papers.p3_two_stage.theory.training import NoisySGD, train

__all__ = [
    "NoisySGD",
    "ReluAttention",
    "TwoStageData",
    "edit_spectrum",
    "load_low_rank",
    "q_loss_bounds",
    "train",
]

_HOMES = {
    "NoisySGD": "theory.training",
    "ReluAttention": "theory.attention",
    "TwoStageData": "theory.data",
    "edit_spectrum": "spectrum_edit",
    "load_low_rank": "low_rank",
    "q_loss_bounds": "theory.floor",
    "train": "theory.training",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
