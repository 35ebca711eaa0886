"""The paper's estimator: a two-layer softmax network trained on noisy labels."""

from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.kernels import SoftmaxNetwork, largest_eigenvalue
from attangent.papers.p2_softmax.diffusion.dataset import ScoreData
from attangent.papers.p2_softmax.diffusion.estimator import ScoreEstimator
from attangent.papers.p2_softmax.diffusion.features import InputMap, PaperInputs
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess
from attangent.papers.p2_softmax.diffusion.training import Descent, Trainer, train

LAMBDA_TOLERANCE = 1e-6


@dataclass(eq=False)
class SoftmaxScore(ScoreEstimator):
    """F(t, x) = m a softmax(W' z), z = inputs(t, x), W trained by GD or Adam (P2 Section 6.1).

    >>> from attangent.papers.p2_softmax.diffusion import GaussianMixture, draw_data
    >>> process, target = ForwardProcess(), GaussianMixture.ring()
    >>> model = SoftmaxScore(process, m=64, trainer=Descent(steps=20)).fit(draw_data(target, process, 100))
    >>> model.score(0.5, torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    """

    process: ForwardProcess
    m: int = 256
    sigma: float = 1.0
    inputs: InputMap = field(default_factory=PaperInputs)
    trainer: Trainer = field(default_factory=Descent)
    keep: tuple[int, ...] = ()
    """Steps to keep beside the trainer's own checkpoints, for `at`."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_even("m", self.m)
        check_positive("sigma", self.sigma)

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> Self:
        data.check_beside(validation)
        X = self.inputs(self.process, data.t, data.x)
        start = self.start(data.d)
        network = start.with_weights(start.W.clone())
        W = network.W  # moved in place by the training

        def gradients() -> list[Tensor]:
            tangent = network.tangent(X)
            return [tangent.pull_back(tangent.outputs - data.y)]

        def validate() -> float:
            assert validation is not None
            Z = self.inputs(self.process, validation.t, validation.x)
            return (network.forward(Z) - validation.y).square().sum(dim=1).mean().item()

        optimiser = self.trainer.optimiser([W], lambda: curvature(start, X), self.m)
        watch = None if validation is None else validate
        self.course = train([W], gradients, optimiser, self.trainer, watch, self.keep)
        self._d = data.d
        return self._use(self.course.best_step)

    def start(self, d: int) -> SoftmaxNetwork:
        """The untrained network for data of this dimension: symmetric, so that it answers 0."""
        columns = self.inputs.columns(d)
        return SoftmaxNetwork(columns, d, self.m, self.sigma, "symmetric", self.seed)

    def _use(self, step: int) -> Self:
        (W,) = self.course.weights(step)
        self.network, self.step = self.start(self.d).with_weights(W), step
        return self

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return self.network.forward(self.inputs(self.process, t, x))


def check_even(name: str, value: Any) -> int:
    """`value` as an even whole number: symmetric neurons come in pairs."""
    if check_size(name, value) % 2:
        raise AttangentError(f"{name} is {value}, expected an even number: symmetric neurons come in pairs")
    return value


def curvature(network: SoftmaxNetwork, X: Tensor) -> float:
    """lambda_max(J J') of a network at X, by products alone."""
    return network.width * largest_eigenvalue(network.kernel_operator(X), LAMBDA_TOLERANCE)
