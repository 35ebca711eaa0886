"""Diffusion with a softmax score estimator: processes, known targets, estimators, samplers, error terms."""

from attangent.papers.p2_softmax.diffusion.errors import ErrorTerms, SampleMean, error_terms, hilbert_function
from attangent.papers.p2_softmax.diffusion.estimator import (
    ExactScore,
    InputMap,
    NaturalInputs,
    PaperInputs,
    ScoreEstimator,
    label_loss,
    relative_error,
    score_error,
)
from attangent.papers.p2_softmax.diffusion.kernel import KernelScore
from attangent.papers.p2_softmax.diffusion.networks import (
    AdamDescent,
    Descent,
    MLPScore,
    SoftmaxScore,
    TrainingHistory,
    checkpoints,
)
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
from attangent.papers.p2_softmax.diffusion.targets import (
    GaussianMixture,
    Rings,
    ScoreData,
    Target,
    draw_data,
    noised_data,
)

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
