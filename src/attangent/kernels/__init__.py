"""Two-layer networks with closed-form gradient and kernel, kernels of any module, what kernels predict."""

from attangent._core.gate import guard_arrays
from attangent.kernels.activation import ExpNetwork, ReLUNetwork
from attangent.kernels.data import unit_data
from attangent.kernels.descent import Network, Trajectory, descend
from attangent.kernels.drift import KernelDrift, drift_callback
from attangent.kernels.limits import exp_limit, prefix_limit, relu_limit, softmax_limit
from attangent.kernels.linearised import LinearisedRun, train_linearised
from attangent.kernels.module_kernel import tangent_kernel
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.operator import KernelOperator, largest_eigenvalue, smallest_eigenvalue, solve
from attangent.kernels.predict import Prediction, log_gap, predict_training, vectorise
from attangent.kernels.prefix import PrefixNetwork
from attangent.kernels.scalar_attention import ScalarAttention
from attangent.kernels.softmax import SoftmaxNetwork
from attangent.kernels.tangent import Tangent

__all__ = [
    "ExpNetwork",
    "KernelDrift",
    "KernelOperator",
    "LinearisedRun",
    "Network",
    "Prediction",
    "PrefixNetwork",
    "ReLUNetwork",
    "ScalarAttention",
    "SoftmaxNetwork",
    "Tangent",
    "Trajectory",
    "TwoLayerNetwork",
    "descend",
    "drift_callback",
    "exp_limit",
    "largest_eigenvalue",
    "log_gap",
    "predict_training",
    "prefix_limit",
    "relu_limit",
    "smallest_eigenvalue",
    "softmax_limit",
    "solve",
    "tangent_kernel",
    "train_linearised",
    "unit_data",
    "vectorise",
]

guard_arrays(globals())
