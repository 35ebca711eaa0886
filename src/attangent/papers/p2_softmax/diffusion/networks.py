"""Two trained estimators: the softmax network of the paper and a ReLU network of its size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attangent._core.checks import check_positive, check_size, check_steps
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.kernels import SoftmaxNetwork, largest_eigenvalue
from attangent.papers.p2_softmax.diffusion.estimator import InputMap, PaperInputs, ScoreEstimator
from attangent.papers.p2_softmax.diffusion.process import ForwardProcess
from attangent.papers.p2_softmax.diffusion.targets import ScoreData


@dataclass(frozen=True)
class _TrainingSteps:
    steps: int = 300
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_steps("steps", self.steps, least=1)
        check_positive("rate", self.rate)


@dataclass(frozen=True)
class Descent(_TrainingSteps):
    """Gradient descent on 1/2 sum |F - y|^2 at the learning rate `rate` / lambda_max(J J'), stable below 2.

    Args:
        steps: How many steps to take.
        rate: The learning rate in units of 1 / lambda_max.
    """

    def optimiser(
        self, weights: list[Tensor], curvature: Callable[[], float], width: int
    ) -> torch.optim.Optimizer:
        """Return SGD for weights of this curvature."""
        return torch.optim.SGD(weights, lr=self.rate / curvature())


@dataclass(frozen=True)
class AdamDescent(_TrainingSteps):
    """Adam on the same loss at the learning rate `rate` / width.

    Args:
        steps: How many steps to take.
        rate: The learning rate times the width; outputs carry a factor m, so rates must fall with it.
    """

    def optimiser(
        self, weights: list[Tensor], curvature: Callable[[], float], width: int
    ) -> torch.optim.Optimizer:
        """Return Adam for weights of a network of this width."""
        return torch.optim.Adam(weights, lr=self.rate / width)


def checkpoints(steps: int, count: int = 24) -> list[int]:
    """Return 0, `steps` and about `count` steps between them, evenly spaced in their logarithm.

    Args:
        steps: The last step.
        count: How many steps to place, before duplicates are dropped.

    Returns:
        Increasing steps.

    Example:
        >>> checkpoints(100, 3)
        [0, 1, 10, 100]
    """
    check_steps("steps", steps, least=1)
    check_size("count", count)
    spaced = torch.logspace(0, torch.log10(torch.tensor(float(steps))).item(), count, dtype=torch.float64)
    return sorted({0, steps, *(min(steps, round(step)) for step in spaced.tolist())})


@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """A training run: the weights at its checkpoints, and which of them to use.

    Attributes:
        snapshots: The weights by step.
        validation: The mean of |F - y|^2 over the validation labels by step; empty without validation data.
    """

    snapshots: dict[int, list[Tensor]]
    validation: dict[int, float]

    @property
    def best_step(self) -> int:
        """The checkpoint with the smallest validation loss, or the last one without validation data."""
        if not self.validation:
            return max(self.snapshots)
        return min(self.validation, key=lambda step: self.validation[step])

    def weights(self, step: int) -> list[Tensor]:
        """Return the weights at a checkpoint."""
        if step not in self.snapshots:
            steps = ", ".join(map(str, self.snapshots))
            raise AttangentError(f"step {step} is not a checkpoint; expected one of {steps}")
        return self.snapshots[step]


def train(
    weights: list[Tensor],
    gradients: Callable[[], list[Tensor]],
    optimiser: torch.optim.Optimizer,
    steps: int,
    validate: Callable[[], float] | None = None,
    keep: Sequence[int] = (),
) -> TrainingHistory:
    """Move `weights` in place along `gradients()`; record them at checkpoints and the steps in `keep`."""
    recorded = {*checkpoints(steps), *keep}
    history = TrainingHistory({}, {})
    for step in range(steps + 1):
        if step in recorded:
            _record(history, step, weights, validate)
        if step < steps:
            for weight, gradient in zip(weights, gradients(), strict=True):
                weight.grad = gradient
            optimiser.step()
    return history


def _record(
    history: TrainingHistory, step: int, weights: list[Tensor], validate: Callable[[], float] | None
) -> None:
    if not all(torch.isfinite(weight).all() for weight in weights):
        raise AttangentError(f"training diverged before step {step}; use a smaller rate")
    history.snapshots[step] = [weight.detach().clone() for weight in weights]
    if validate is not None:
        history.validation[step] = validate()


LAMBDA_TOLERANCE = 1e-6


@dataclass(eq=False)
class SoftmaxScore(ScoreEstimator):
    """F(t, x) = m a softmax(W' z), z = inputs(t, x), W trained by GD or Adam (P2 Section 6.1).

    Args:
        process: The forward process.
        m: The width, an even number: symmetric neurons come in pairs.
        sigma: The standard deviation of the initial weights.
        inputs: The map of (t, x) into the unit ball.
        trainer: `Descent` or `AdamDescent`.
        keep: Further steps at which `at` is available.
        seed: Seed of the initial weights.

    Example:
        >>> from attangent.papers.p2_softmax.diffusion import GaussianMixture, draw_data
        >>> process, target = ForwardProcess(), GaussianMixture.ring()
        >>> data = draw_data(target, process, 100)
        >>> model = SoftmaxScore(process, m=64, trainer=Descent(steps=20)).fit(data)
        >>> model.score(0.5, torch.zeros(3, 2)).shape
        torch.Size([3, 2])
    """

    process: ForwardProcess
    m: int = 256
    sigma: float = 1.0
    inputs: InputMap = field(default_factory=PaperInputs)
    trainer: Descent | AdamDescent = field(default_factory=Descent)
    keep: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_even("m", self.m)
        check_positive("sigma", self.sigma)

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> "SoftmaxScore":
        X = self.inputs(self.process, data.t, data.x)
        start = self.start(data.d)
        network = start.with_weights(start.W.clone())
        W = network.W  # moved in place by the training

        def gradients() -> list[Tensor]:
            tangent = network.tangent(X)
            return [tangent.pull_back(tangent.outputs - data.y)]

        optimiser = self.trainer.optimiser([W], lambda: curvature(start, X), self.m)
        validate = _validation_loss(self, network.forward, validation)
        self.history = train([W], gradients, optimiser, self.trainer.steps, validate, self.keep)
        self._d = data.d
        return self._use(self.history.best_step)

    def start(self, d: int) -> SoftmaxNetwork:
        """Return the untrained network for data of dimension d: symmetric, so that it answers 0."""
        columns = self.inputs.columns(d)
        return SoftmaxNetwork(columns, d, self.m, self.sigma, "symmetric", self.seed)

    def _use(self, step: int) -> "SoftmaxScore":
        (W,) = self.history.weights(step)
        self.network = self.start(self.d).with_weights(W)
        self.step = step
        return self

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return self.network.forward(self.inputs(self.process, t, x))


def check_even(name: str, value: float) -> None:
    """Check that `value` is an even whole number."""
    if check_size(name, value) % 2:
        raise AttangentError(f"{name} is {value}; pass an even number, since symmetric neurons come in pairs")


def curvature(network: SoftmaxNetwork, X: Tensor) -> float:
    """Return lambda_max(J J') of a network at X, from matrix-vector products alone."""
    return network.width * largest_eigenvalue(network.kernel_operator(X), LAMBDA_TOLERANCE)


@dataclass(eq=False)
class MLPScore(ScoreEstimator):
    """F(t, x) = V max(U z + b, 0) + c, z = inputs(t, x), all weights trained by Adam.

    Args:
        process: The forward process.
        hidden: The number of hidden neurons.
        inputs: The map of (t, x) into the unit ball.
        trainer: Adam; its rate is not divided by the width, since these outputs carry no factor of it.
        seed: Seed of the initial weights.
    """

    process: ForwardProcess
    hidden: int = 128
    inputs: InputMap = field(default_factory=PaperInputs)
    trainer: AdamDescent = field(default_factory=lambda: AdamDescent(rate=0.01))
    seed: int = 0

    def __post_init__(self) -> None:
        check_size("hidden", self.hidden)

    @classmethod
    def sized_like(cls, softmax: SoftmaxScore, d: int, trainer: AdamDescent) -> "MLPScore":
        """Return a network with as many trained numbers as the softmax network, the same inputs and seed."""
        columns = softmax.inputs.columns(d)
        hidden = max(1, round((columns * softmax.m - d) / (columns + 1 + d)))
        return cls(softmax.process, hidden, softmax.inputs, trainer, softmax.seed)

    def fit(self, data: ScoreData, validation: ScoreData | None = None) -> "MLPScore":
        weights = self._draw(self.inputs.columns(data.d), data.d)
        X = self.inputs(self.process, data.t, data.x)

        def gradients() -> list[Tensor]:
            free = [weight.detach().requires_grad_() for weight in weights]
            loss = 0.5 * (_relu_network(free, X) - data.y).square().sum()
            return list(torch.autograd.grad(loss, free))

        optimiser = self.trainer.optimiser(weights, lambda: 1.0, 1)
        validate = _validation_loss(self, lambda Z: _relu_network(weights, Z), validation)
        self.history: TrainingHistory = train(weights, gradients, optimiser, self.trainer.steps, validate)
        self._d = data.d
        return self._use(self.history.best_step)

    @property
    def size(self) -> int:
        """How many numbers are trained."""
        return sum(weight.numel() for weight in self._weights)

    def _use(self, step: int) -> "MLPScore":
        self._weights = self.history.weights(step)
        self.step = step
        return self

    def _draw(self, columns: int, d: int) -> list[Tensor]:
        """Draw He weights for the hidden layer and a small output layer; offsets start at 0."""
        rng = generator(self.seed, "mlp weights")

        def normal(rows: int, columns: int, deviation: float) -> Tensor:
            return deviation * torch.randn(rows, columns, generator=rng, dtype=torch.float64)

        U = normal(self.hidden, columns, math.sqrt(2 / columns))
        V = normal(d, self.hidden, math.sqrt(1 / self.hidden))
        return [U, U.new_zeros(self.hidden), V, V.new_zeros(d)]

    def _mean(self, t: Tensor, x: Tensor) -> Tensor:
        return _relu_network(self._weights, self.inputs(self.process, t, x))


def _relu_network(weights: list[Tensor], X: Tensor) -> Tensor:
    U, b, V, c = weights
    return torch.relu(X @ U.T + b) @ V.T + c


def _validation_loss(
    estimator: SoftmaxScore | MLPScore, forward: Callable[[Tensor], Tensor], validation: ScoreData | None
) -> Callable[[], float] | None:
    """Return a function that gives the mean of |F - y|^2 over validation labels; None without them."""
    if validation is None:
        return None
    Z = estimator.inputs(estimator.process, validation.t, validation.x)
    return lambda: (forward(Z) - validation.y).square().sum(dim=1).mean().item()
