"""Which known rule does an in-context learner follow?"""

from attangent._core.deprecation import moved_names
from attangent.icl.compare import Comparison, RepresentationWarning, compare_to_ridge, predictor_of
from attangent.icl.dictionary import IN_DOMAIN, OUT_OF_DOMAIN, Dictionary, Prompts, Tasks
from attangent.icl.learners import sklearn_predictor, text_predictor
from attangent.icl.rules import RidgeLimit, clean_risk, expected_distance

__all__ = [
    "IN_DOMAIN",
    "OUT_OF_DOMAIN",
    "Comparison",
    "Dictionary",
    "Prompts",
    "RepresentationWarning",
    "RidgeLimit",
    "Tasks",
    "clean_risk",
    "compare_to_ridge",
    "expected_distance",
    "predictor_of",
    "sklearn_predictor",
    "text_predictor",
]

_P4 = "attangent.papers.p4_in_context"
__getattr__ = moved_names(
    __name__,
    "0.2",
    {"Training": f"{_P4}:TrainingRun"}
    | {name: f"{_P4}:{name}" for name in ("Certificate", "Health", "InitialisationWarning")}
    | {name: f"{_P4}:{name}" for name in ("InContextTransformer", "OneLayerAttention")}
    | {name: f"{_P4}:{name}" for name in ("TransformerConfig", "TransformerTrainer")},
    removed={"InContextRidge": "use sklearn.linear_model.Ridge(alpha=m * tau, fit_intercept=False)"},
)
