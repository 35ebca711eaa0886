"""Tangent operators of any torch module."""

from attangent.kernels.modules.operator import TangentOperator, tangent_operator

__all__ = ["TangentOperator", "tangent_operator"]
