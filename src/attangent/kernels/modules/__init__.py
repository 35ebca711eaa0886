"""Tangent operators of any torch module."""

from attangent._core.deprecation import moved_names
from attangent.kernels.modules.operator import TangentOperator, tangent_operator

__all__ = ["TangentOperator", "tangent_operator"]

__getattr__ = moved_names(
    __name__,
    "0.2",
    {},
    removed=dict.fromkeys(
        ("Optimiser", "TangentModel", "departure"), "they served the planning of tuning runs"
    ),
)
