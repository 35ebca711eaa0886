"""Diffusion with a softmax score estimator: processes, known targets, estimators, samplers, error terms."""

from attangent.papers.p2_softmax.diffusion.dataset import ScoreData, draw_data, noised_data
from attangent.papers.p2_softmax.diffusion.errors import ErrorTerms, SampleMean, error_terms, hilbert_function
from attangent.papers.p2_softmax.diffusion.estimator import (
    ExactScore,
    ScoreEstimator,
    label_loss,
    relative_error,
    score_error,
)
from attangent.papers.p2_softmax.diffusion.inputs import InputMap, NaturalInputs, PaperInputs
from attangent.papers.p2_softmax.diffusion.kernel import KernelScore
from attangent.papers.p2_softmax.diffusion.networks import MLPScore, SoftmaxScore
from attangent.papers.p2_softmax.diffusion.process import ConstantSchedule, ForwardProcess, LinearSchedule
from attangent.papers.p2_softmax.diffusion.sampling import (
    Coverage,
    SampleQuality,
    mmd,
    mode_coverage,
    sample,
    sample_quality,
    sliced_wasserstein,
)
from attangent.papers.p2_softmax.diffusion.targets import GaussianMixture, Rings, Target
from attangent.papers.p2_softmax.diffusion.training import AdamDescent, Descent, TrainingHistory, checkpoints

__all__ = [
    "AdamDescent",
    "ConstantSchedule",
    "Coverage",
    "Descent",
    "ErrorTerms",
    "ExactScore",
    "ForwardProcess",
    "GaussianMixture",
    "InputMap",
    "KernelScore",
    "LinearSchedule",
    "MLPScore",
    "NaturalInputs",
    "PaperInputs",
    "Rings",
    "SampleMean",
    "SampleQuality",
    "ScoreData",
    "ScoreEstimator",
    "SoftmaxScore",
    "Target",
    "TrainingHistory",
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
