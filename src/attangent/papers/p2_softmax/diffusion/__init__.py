"""Diffusion with a softmax score estimator: processes, known targets, estimators, samplers, error terms."""

from attangent._core.gate import guard_arrays
from attangent.papers.p2_softmax.diffusion.dataset import ScoreData, draw_data, noised_data
from attangent.papers.p2_softmax.diffusion.errors import ErrorTerms, Estimate, error_terms, hilbert_function
from attangent.papers.p2_softmax.diffusion.estimator import (
    ExactScore,
    ScoreEstimator,
    label_loss,
    relative_error,
    score_error,
)
from attangent.papers.p2_softmax.diffusion.features import InputMap, NaturalInputs, PaperInputs
from attangent.papers.p2_softmax.diffusion.kernel import KernelScore
from attangent.papers.p2_softmax.diffusion.mixture import GaussianMixture, Target
from attangent.papers.p2_softmax.diffusion.mlp import MLPScore
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess
from attangent.papers.p2_softmax.diffusion.quality import (
    Coverage,
    SampleQuality,
    mmd,
    mode_coverage,
    sample_quality,
    sliced_wasserstein,
)
from attangent.papers.p2_softmax.diffusion.rings import Rings
from attangent.papers.p2_softmax.diffusion.sampler import sample
from attangent.papers.p2_softmax.diffusion.schedule import (
    ConstantSchedule,
    LinearSchedule,
    NumericSchedule,
    Schedule,
)
from attangent.papers.p2_softmax.diffusion.softmax import SoftmaxScore
from attangent.papers.p2_softmax.diffusion.training import Adam, Course, Descent, checkpoints

__all__ = [
    "Adam",
    "ConstantSchedule",
    "Course",
    "Coverage",
    "Descent",
    "ErrorTerms",
    "Estimate",
    "ExactScore",
    "ForwardProcess",
    "GaussianMixture",
    "InputMap",
    "KernelScore",
    "LinearSchedule",
    "MLPScore",
    "NaturalInputs",
    "NumericSchedule",
    "PaperInputs",
    "Rings",
    "SampleQuality",
    "Schedule",
    "ScoreData",
    "ScoreEstimator",
    "SoftmaxScore",
    "Target",
    "checkpoints",
    "draw_data",
    "error_terms",
    "hilbert_function",
    "label_loss",
    "mmd",
    "mode_coverage",
    "noised_data",
    "relative_error",
    "sample",
    "sample_quality",
    "score_error",
    "sliced_wasserstein",
]

guard_arrays(globals())
