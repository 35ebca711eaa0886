"""Which known rule does an in-context learner follow?"""

from typing import TYPE_CHECKING, Any

from attangent._core.gate import guard_arrays
from attangent.icl.compare import Comparison, RepresentationWarning, compare_to_ridge, predictor_of
from attangent.icl.dictionary import Dictionary, Prompts
from attangent.icl.learners import sklearn_predictor, text_predictor
from attangent.icl.ridge import RidgeLimit, clean_risk, expected_distance
from attangent.icl.tasks import IN_DOMAIN, OUT_OF_DOMAIN, Tasks

if TYPE_CHECKING:
    from attangent.icl.estimator import InContextRidge

__all__ = [
    "IN_DOMAIN",
    "OUT_OF_DOMAIN",
    "Comparison",
    "Dictionary",
    "InContextRidge",
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

guard_arrays(globals())


def __getattr__(name: str) -> Any:
    if name == "InContextRidge":  # scikit-learn takes long to import
        from attangent.icl.estimator import InContextRidge

        return InContextRidge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
