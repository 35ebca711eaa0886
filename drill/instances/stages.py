"""Two-stage data, detectors, edits."""

from collections.abc import Callable
from typing import Any

from drill.instances.models import language_model


def _relu_attention() -> Any:
    from attangent.papers.p3_two_stage.theory.attention import ReluAttention

    return ReluAttention(6, std=0.1)


def two_stage_data() -> Any:
    from attangent.papers.p3_two_stage.theory.data import TwoStageData

    return TwoStageData(6, 4, p_only=0.25, q_only=0.25)


def _prompts() -> Any:
    return two_stage_data().sample(16)


def _noisy_sgd() -> Any:
    from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD

    return NoisySGD((ConstantRate(0.01, 2),), weight_decay=0.01, init_std=0.1)


def _detector() -> Any:
    from attangent.stages import StageDetector

    return StageDetector(["a", "b"])


def _edit() -> Any:
    from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum

    return edit_spectrum(language_model(), "largest", rho=0.5)


INSTANCES: dict[str, Callable[[], Any]] = {
    "ReluAttention": _relu_attention,
    "TwoStageData": two_stage_data,
    "Prompts": _prompts,
    "QPrompts": _prompts,
    "NoisySGD": _noisy_sgd,
    "StageDetector": _detector,
    "SpectrumEdit": _edit,
}
