"""Softmax networks with closed-form gradient and kernel, and what the kernel predicts of their training."""

from attangent.kernels.data import unit_data
from attangent.kernels.descent import Network, Trajectory, descend
from attangent.kernels.predict import Prediction, log_gap, predict_training, vectorise
from attangent.kernels.softmax import SoftmaxNetwork

__all__ = [
    "Network",
    "Prediction",
    "SoftmaxNetwork",
    "Trajectory",
    "descend",
    "log_gap",
    "predict_training",
    "unit_data",
    "vectorise",
]
