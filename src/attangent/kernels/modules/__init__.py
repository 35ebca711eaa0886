"""Kernels and tangents of any torch module: products, spectra, and the training they foretell."""

from attangent._core.gate import guard_arrays
from attangent.kernels.modules.low_rank import LowRank, nystrom
from attangent.kernels.modules.operator import TangentOperator, tangent_operator
from attangent.kernels.modules.optimiser import Optimiser
from attangent.kernels.modules.tangent_model import TangentModel, TangentRun, departure

__all__ = [
    "LowRank",
    "Optimiser",
    "TangentModel",
    "TangentOperator",
    "TangentRun",
    "departure",
    "nystrom",
    "tangent_operator",
]

guard_arrays(globals())
