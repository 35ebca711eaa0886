"""Networks, their tangents, kernels and predictions."""

from collections.abc import Callable
from typing import Any

import torch

_X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


def _kernels(name: str, *sizes: int) -> Callable[[], Any]:
    def build() -> Any:
        from attangent import kernels

        return getattr(kernels, name)(*sizes)

    return build


def softmax_network() -> Any:
    return _kernels("SoftmaxNetwork", 3, 2, 8)()


def _prediction() -> Any:
    from attangent.kernels import predict_training

    return predict_training(torch.eye(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64), 0.1)


def _operator() -> Any:
    return softmax_network().kernel_operator(_X)


def _tangent_model() -> Any:
    from attangent.kernels.modules import TangentModel

    return TangentModel.of(torch.nn.Linear(3, 2).double(), _X)


def _low_rank() -> Any:
    from attangent.kernels.modules import nystrom

    return nystrom(_operator(), 2)


def _linearised() -> Any:
    from attangent.kernels import train_linearised

    return train_linearised(torch.nn.Linear(3, 2).double(), _X, _X[:, :2], 0.1, 2)


INSTANCES: dict[str, Callable[[], Any]] = {
    **{n: _kernels(n, 3, 2, 8) for n in ("SoftmaxNetwork", "ReLUNetwork", "ExpNetwork")},
    "Network": softmax_network,
    "TwoLayerNetwork": softmax_network,
    "PrefixNetwork": _kernels("PrefixNetwork", 3, 8),
    "ScalarAttention": _kernels("ScalarAttention", 3, 8),
    "Prediction": _prediction,
    "LinearOperator": _operator,
    "KernelOperator": _operator,
    "Tangent": lambda: softmax_network().tangent(_X),
    "Factor": lambda: softmax_network().tangent(_X).gate,
    "TangentModel": _tangent_model,
    "Functional": lambda: _tangent_model().function,
    "LowRank": _low_rank,
    "LinearisedRun": _linearised,
}
