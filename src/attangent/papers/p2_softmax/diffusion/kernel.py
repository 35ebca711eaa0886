"""Kernel regression instead of the network: gradient descent of any length in closed form (P2 Eq. 25)."""

import copy
import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from scipy.sparse import eye_array
from scipy.sparse.linalg import aslinearoperator
from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent.kernels import Prediction, SoftmaxNetwork, largest_eigenvalue, predict_training, vectorise
from attangent.papers.p2_softmax.diffusion.estimator import InputMap, PaperInputs, ScoreEstimator, label_loss
from attangent.papers.p2_softmax.diffusion.networks import (
    LAMBDA_TOLERANCE,
    SoftmaxScore,
    check_even,
    checkpoints,
    curvature,
)
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess
from attangent.papers.p2_softmax.diffusion.targets import ScoreData
from attangent.papers.p2_softmax.networks import softmax_limit


@dataclass(eq=False)
class KernelScore(ScoreEstimator):
    """Gradient descent on the softmax network of width m with its kernel frozen at the start.

    `fit` makes one eigendecomposition of (d n)^2 numbers, or n^2 at infinite width. After that, `at(step)` is
    free for every step. All numbers are float64, because small eigenvalues decide what long training does.

    Args:
        process: The forward process.
        m: The width; math.inf takes the kernel of infinite width, I x g e^(sigma^2 g).
        sigma: The standard deviation of the initial weights.
        inputs: The map of (t, x) into the unit ball.
        steps: The step to use; with validation data, the last step to try.
        rate: The learning rate in units of 1 / lambda_max, as in `Descent`.
        seed: Seed of the initial weights.
    """

    process: ForwardProcess
    m: float = 256
    sigma: float = 1.0
    inputs: InputMap = field(default_factory=PaperInputs)
    steps: int = 300
    rate: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.m != math.inf:
            check_even("m", self.m)
        check_positive("sigma", self.sigma)
        check_positive("rate", self.rate)
        check_size("steps", self.steps)

    @classmethod
    def like(cls, softmax: SoftmaxScore, rate: float = 1.0, steps: int = 300) -> "KernelScore":
        """Return the estimator with the kernel of this network at its start, and its inputs."""
        return cls(softmax.process, softmax.m, softmax.sigma, softmax.inputs, steps, rate, softmax.seed)

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> "KernelScore":
        X = self.inputs(self.process, data.t, data.x)
        if self.m == math.inf:
            self._regression = _WideKernel(X, data.y, self.sigma, self.rate)
        else:
            network = SoftmaxScore(self.process, int(self.m), self.sigma, self.inputs, seed=self.seed)
            self._regression = _NetworkKernel(network.start(data.d), X, data.y, self.rate)
        self._d = data.d
        tried = [] if validation is None else checkpoints(self.steps, 60)
        self.validation = {step: label_loss(self.at(step), validation) for step in tried if validation}
        return self._use(min(tried, key=lambda step: self.validation[step], default=self.steps))

    def relabelled(self, y: Float[Tensor, "points d"]) -> "KernelScore":
        """Return the estimator for other labels of the same points, without another eigendecomposition."""
        other = self.at(self.step)
        other._regression = self._regression.relabelled(y)
        return other._use(self.step)

    @property
    def squared_norm(self) -> float:
        """|F|^2 in the kernel's Hilbert space."""
        return self._function.squared_norm

    def _use(self, step: int) -> "KernelScore":
        self._function = self._regression.function(step)
        self.step = step
        return self

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return self._function(self.inputs(self.process, t, x))


class _NetworkKernel:
    """Kernel regression with the kernel J J'/m of a network, evaluated through its weights: F = F_0 + J U."""

    def __init__(self, network: SoftmaxNetwork, X: Tensor, Y: Tensor, rate: float):
        self.network = network
        self.X = X
        self.rate = rate / curvature(network, X)
        residual = network.forward(X) - Y
        self.prediction = predict_training(network.kernel(X), residual, self.rate, width=network.m)

    def relabelled(self, Y: Tensor) -> "_NetworkKernel":
        other = copy.copy(self)
        residual = vectorise(self.network.forward(self.X) - Y)
        other.prediction = _same_kernel(self.prediction, residual, self.rate)
        return other

    def function(self, step: int) -> "_Linearised":
        gamma = combination(self.prediction, step)
        return _Linearised(self.network, self.network.tangent(self.X).pull_back(gamma) / self.network.m)


@dataclass(frozen=True)
class _Linearised:
    """F(x) = F_0(x) + J(x) U."""

    network: SoftmaxNetwork
    U: Tensor

    @property
    def squared_norm(self) -> float:
        # U lies in the span of the gradients, and the kernel is J J'/m
        return (self.network.m * self.U.square().sum()).item()

    def __call__(self, X: Tensor) -> Tensor:
        tangent = self.network.tangent(X)
        return tangent.outputs + tangent.push_forward(self.U)


class _WideKernel:
    """Kernel regression with the kernel of infinite width, which is the same block for each output."""

    def __init__(self, X: Tensor, Y: Tensor, sigma: float, rate: float):
        self.X = X
        self.sigma = sigma
        self.kernel = softmax_limit(X, sigma=sigma)
        self.rate = rate / largest_eigenvalue(aslinearoperator(self.kernel.numpy()), LAMBDA_TOLERANCE)
        first = predict_training(self.kernel, -Y[:, 0], self.rate)
        self.predictions = [_same_kernel(first, -y, self.rate) for y in Y.T]

    def relabelled(self, Y: Tensor) -> "_WideKernel":
        other = copy.copy(self)
        other.predictions = [_same_kernel(self.predictions[0], -y, self.rate) for y in Y.T]
        return other

    def function(self, step: int) -> "_Expansion":
        gamma = torch.cat([combination(prediction, step) for prediction in self.predictions], dim=1)
        return _Expansion(self.X, self.kernel, gamma, self.sigma)


@dataclass(frozen=True)
class _Expansion:
    """F(x) = sum_i k(x, x_i) gamma_i."""

    X: Tensor
    kernel: Tensor
    gamma: Tensor
    sigma: float

    @property
    def squared_norm(self) -> float:
        return (self.gamma * (self.kernel @ self.gamma)).sum().item()

    def __call__(self, X: Tensor) -> Tensor:
        return softmax_limit(X, self.X, sigma=self.sigma) @ self.gamma


def combination(prediction: Prediction, step: int) -> Float[Tensor, "n d"]:
    """Return gamma of Eq. (25) after `step` steps, with F = F_0 + K gamma."""
    # predicted outputs under the identity instead of K are the coefficients themselves
    identity = aslinearoperator(eye_array(len(prediction.eigenvectors)))
    return prediction.outputs(identity, step)


def _same_kernel(known: Prediction, residual: Tensor, rate: float) -> Prediction:
    """Return the prediction for another residual, from the eigendecomposition of the known one."""
    spectrum = (known.eigenvalues, known.eigenvectors)
    return Prediction(*spectrum, residual, rate * known.width, known.width, known.d_out)
