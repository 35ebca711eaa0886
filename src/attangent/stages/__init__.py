"""Stages in a training run, and spectra of a model's weights."""

from attangent._core.deprecation import moved_names
from attangent.stages.detector import StageDetector, find_stages, stage_callback
from attangent.stages.metrics import read_metrics
from attangent.stages.singular_values import plot_spectrum, spectrum

__all__ = [
    "StageDetector",
    "find_stages",
    "plot_spectrum",
    "read_metrics",
    "spectrum",
    "stage_callback",
]

_P3 = "attangent.papers.p3_two_stage"
__getattr__ = moved_names(
    __name__,
    "0.2",
    {name: f"{_P3}:{name}" for name in ("NoisySGD", "ReluAttention", "TwoStageData", "edit_spectrum")}
    | {name: f"{_P3}:{name}" for name in ("q_loss_bounds", "train")},
    removed=dict.fromkeys(
        ("measure_effect", "minus_loss", "search_spectrum"), "the search for edits did not pay off"
    )
    | {"load_low_rank": "edited models are saved as ordinary models: apply() the edit, then save_pretrained"},
)
