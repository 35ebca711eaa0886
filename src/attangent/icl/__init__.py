"""In-context learning on a dictionary of tokens: attention that learns to do ridge regression."""

from typing import TYPE_CHECKING, Any

from attangent._gate import guard_arrays
from attangent.icl.attention import OneLayerAttention
from attangent.icl.certificate import Certificate
from attangent.icl.compare import Comparison, RepresentationWarning, compare_to_ridge, predictor_of
from attangent.icl.dictionary import Dictionary, Prompts
from attangent.icl.health import Health, InitialisationWarning
from attangent.icl.learners import sklearn_predictor, text_predictor
from attangent.icl.ridge import RidgeLimit, clean_risk, expected_distance
from attangent.icl.tasks import IN_DOMAIN, OUT_OF_DOMAIN, Tasks
from attangent.icl.training import Training
from attangent.icl.transformer import InContextTransformer, TransformerConfig, TransformerTrainer

if TYPE_CHECKING:
    from attangent.icl.estimator import InContextRidge

__all__ = [
    "IN_DOMAIN",
    "OUT_OF_DOMAIN",
    "Certificate",
    "Comparison",
    "Dictionary",
    "Health",
    "InContextRidge",
    "InContextTransformer",
    "InitialisationWarning",
    "OneLayerAttention",
    "Prompts",
    "RepresentationWarning",
    "RidgeLimit",
    "Tasks",
    "Training",
    "TransformerConfig",
    "TransformerTrainer",
    "clean_risk",
    "compare_to_ridge",
    "expected_distance",
    "predictor_of",
    "sklearn_predictor",
    "text_predictor",
]

guard_arrays(globals())


def __getattr__(name: str) -> Any:
    """scikit-learn takes long to import: only who asks for the estimator pays."""
    if name == "InContextRidge":
        from attangent.icl.estimator import InContextRidge

        return InContextRidge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
