"""Tangent kernels of a two-layer softmax network and of any torch module, and the training they predict."""

from attangent._core.deprecation import moved_names
from attangent.kernels.data import unit_data
from attangent.kernels.descent import Network, Trajectory, descend
from attangent.kernels.modules.dense import tangent_kernel
from attangent.kernels.modules.drift import KernelDrift, drift_callback
from attangent.kernels.modules.linearised import LinearisedRun, train_linearised
from attangent.kernels.modules.operator import TangentOperator, tangent_operator
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.operator import KernelOperator, largest_eigenvalue, smallest_eigenvalue, solve
from attangent.kernels.predict import Prediction, log_gap, predict_training, vectorise
from attangent.kernels.softmax import SoftmaxNetwork
from attangent.kernels.tangent import Tangent

__all__ = [
    "KernelDrift",
    "KernelOperator",
    "LinearisedRun",
    "Network",
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
__getattr__ = moved_names(
    __name__,
    "0.2",
    {
        "ExpNetwork": f"{_P2}:ExpNetwork",
        "Guarantee": f"{_P1}:Guarantee",
        "PrefixNetwork": f"{_P1}.network:PrefixNetwork",
        "ReLUNetwork": f"{_P2}:ReLUNetwork",
        "ScalarAttention": "attangent.papers.p5_forecasting.theory.scalar_attention:ScalarAttention",
        "concentration_bound": f"{_P1}:concentration_bound",
        "exp_limit": f"{_P2}:exp_limit",
        "prefix_guarantee": f"{_P1}:prefix_guarantee",
        "prefix_limit": f"{_P1}.network:prefix_limit",
        "relu_limit": f"{_P2}:relu_limit",
        "require_unit_ball": f"{_P1}:require_unit_ball",
        "softmax_limit": f"{_P2}:softmax_limit",
    },
)
