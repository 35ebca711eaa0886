"""Tangent kernels of a two-layer softmax network and of any torch module, and the training they predict."""

from attangent._core.deprecation import moved_names
from attangent.kernels.data import unit_data
from attangent.kernels.descent import Trajectory, descend
from attangent.kernels.modules.dense import KernelDrift, drift_callback, tangent_kernel
from attangent.kernels.modules.operator import (
    LinearisedRun,
    TangentOperator,
    tangent_operator,
    train_linearised,
)
from attangent.kernels.network import SoftmaxNetwork, TwoLayerNetwork
from attangent.kernels.operator import KernelOperator, largest_eigenvalue, smallest_eigenvalue, solve
from attangent.kernels.predict import Prediction, log_gap, predict_training, vectorise
from attangent.kernels.tangent import Tangent

__all__ = [
    "KernelDrift",
    "KernelOperator",
    "LinearisedRun",
    "Prediction",
    "SoftmaxNetwork",
    "Tangent",
    "TangentOperator",
    "Trajectory",
    "TwoLayerNetwork",
    "descend",
    "drift_callback",
    "largest_eigenvalue",
    "log_gap",
    "predict_training",
    "smallest_eigenvalue",
    "solve",
    "tangent_kernel",
    "tangent_operator",
    "train_linearised",
    "unit_data",
    "vectorise",
]

_P1 = "attangent.papers.p1_prefix"
_P2 = "attangent.papers.p2_softmax.networks"
_P5 = "attangent.papers.p5_forecasting.theory.attention_model"
__getattr__ = moved_names(
    __name__,
    "0.2",
    {"Network": f"{__name__}:TwoLayerNetwork"}
    | {name: f"{_P1}:{name}" for name in ("Guarantee", "concentration_bound", "prefix_guarantee")}
    | {"require_unit_ball": f"{_P1}:require_unit_ball", "ScalarAttention": f"{_P5}:ScalarAttention"}
    | {name: f"{_P1}.network:{name}" for name in ("PrefixNetwork", "prefix_limit")}
    | {name: f"{_P2}:{name}" for name in ("ExpNetwork", "ReLUNetwork")}
    | {name: f"{_P2}:{name}" for name in ("exp_limit", "relu_limit", "softmax_limit")},
)
