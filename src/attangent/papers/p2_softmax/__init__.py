"""P2: the tangent kernel of softmax networks, and diffusion models that learn scores with it."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p2_softmax.diffusion import (
        AdamDescent,
        Descent,
        ExactScore,
        ForwardProcess,
        GaussianMixture,
        KernelScore,
        MLPScore,
        NaturalInputs,
        PaperInputs,
        Rings,
        SoftmaxScore,
        draw_data,
        error_terms,
        hilbert_function,
        label_loss,
        mode_coverage,
        noised_data,
        relative_error,
        sample,
        sample_quality,
    )

__all__ = [
    "AdamDescent",
    "Descent",
    "ExactScore",
    "ForwardProcess",
    "GaussianMixture",
    "KernelScore",
    "MLPScore",
    "NaturalInputs",
    "PaperInputs",
    "Rings",
    "SoftmaxScore",
    "draw_data",
    "error_terms",
    "hilbert_function",
    "label_loss",
    "mode_coverage",
    "noised_data",
    "relative_error",
    "sample",
    "sample_quality",
]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "diffusion"))
