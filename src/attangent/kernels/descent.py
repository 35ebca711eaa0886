"""Gradient descent on a two-layer network, with the quantities of the theorems recorded per step."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_positive, check_steps
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent.kernels.checks import as_points, as_targets

if TYPE_CHECKING:
    from attangent.kernels.network import TwoLayerNetwork


@dataclass(frozen=True)
class Trajectory:
    """A run of gradient descent; entry t of each (steps + 1,) tensor belongs to the weights after t steps.

    Attributes:
        rate: Learning rate.
        loss: 1/2 |F(t) - Y|^2.
        movement: Largest |w_r(t) - w_r(0)| over the neurons.
        gradient_norm: Largest |dL/dw_r| over the neurons.
        final: The network after the last step.
        snapshots: The network at each step named in `keep`.
        kernel_drift: |H(t) - H(0)|_F at each step named in `drift_at`.
        diverged: Whether the run ended early because loss, gradient or weights were not finite.

    Example:
        >>> from attangent.kernels import SoftmaxNetwork, unit_data
        >>> X, Y = unit_data(n=4, d_in=3, d_out=1, seed=0)
        >>> run = SoftmaxNetwork(d_in=3, d_out=1, m=64).descend(X, Y, rate=1e-3, steps=5)
        >>> run.steps, bool(run.loss[-1] < run.loss[0])
        (5, True)
    """

    rate: float
    loss: Float[Tensor, " times"]
    movement: Float[Tensor, " times"]
    gradient_norm: Float[Tensor, " times"]
    final: Any
    snapshots: dict[int, Any]
    kernel_drift: dict[int, float]
    diverged: bool

    __repr__ = brief_fields

    @property
    def steps(self) -> int:
        """Number of steps made; fewer than requested if the run diverged."""
        return len(self.loss) - 1


def descend(
    network: "TwoLayerNetwork",
    X: Any,
    Y: Any,
    rate: float,
    steps: int,
    *,
    keep: Iterable[int] = (),
    drift_at: Iterable[int] = (),
) -> Trajectory:
    """Run W <- W - rate dL/dW on L = 1/2 |F - Y|^2; `network` itself is unchanged.

    The run ends early, marked `diverged`, when loss, gradient or weights are no longer finite.

    Args:
        network: Where to start.
        X: Points (n, d_in).
        Y: Targets (n, d_out).
        rate: Learning rate.
        steps: Number of steps.
        keep: Steps whose network to store.
        drift_at: Steps at which to compare the kernel with the initial one (each costs one kernel).

    Returns:
        Losses, movement and gradient norms of all steps.

    Raises:
        AttangentError: If the data do not fit the network, or `keep` or `drift_at` names no step of the run.

    Example:
        >>> from attangent.kernels import SoftmaxNetwork, unit_data
        >>> X, Y = unit_data(n=4, d_in=3, d_out=1, seed=0)
        >>> run = descend(SoftmaxNetwork(d_in=3, d_out=1, m=64), X, Y, rate=1e-3, steps=5, keep=[2])
        >>> list(run.snapshots)
        [2]
    """
    X = as_points("X", X, network.d_in, network.W)
    Y = as_targets(Y, X, network.d_out, network.W)
    check_positive("rate", rate)
    recorder = _Recorder(network, X, Y, _steps("keep", keep, steps), _steps("drift_at", drift_at, steps))
    current = network
    for step in range(steps + 1):
        gradient = current.gradient(X, Y)
        if not recorder.note(step, current, gradient) or step == steps:
            break
        W = current.W - rate * gradient
        if not torch.isfinite(W).all():
            recorder.diverged = True
            break
        current = current.with_weights(W)
    return recorder.trajectory(rate, current)


def _steps(name: str, requested: Iterable[int], steps: int) -> frozenset[int]:
    check_steps("steps", steps)
    chosen = frozenset(requested)
    beyond = sorted(step for step in chosen if not 0 <= step <= steps)
    if beyond:
        raise AttangentError(f"{name} names step {beyond[0]}, expected steps from 0 to {steps}")
    return chosen


class _Recorder:
    def __init__(
        self, network: "TwoLayerNetwork", X: Tensor, Y: Tensor, keep: frozenset[int], drift_at: frozenset[int]
    ):
        self.start = network
        self.X = X
        self.Y = Y
        self.keep = keep
        self.drift_at = drift_at
        self.rows: list[tuple[float, float, float]] = []
        self.snapshots: dict[int, Any] = {}
        self.drift: dict[int, float] = {}
        self.first_kernel = network.kernel(X) if drift_at else None
        self.diverged = False

    def note(self, step: int, network: "TwoLayerNetwork", gradient: Tensor) -> bool:
        """Record one step and return whether loss and gradient are finite."""
        loss = 0.5 * (network.forward(self.X) - self.Y).square().sum()
        moved = _largest_column(network.W - self.start.W)
        self.rows.append((loss.item(), moved, _largest_column(gradient)))
        if step in self.keep:
            self.snapshots[step] = network
        if step in self.drift_at and self.first_kernel is not None:
            self.drift[step] = (network.kernel(self.X) - self.first_kernel).norm().item()
        self.diverged = not (torch.isfinite(loss) and torch.isfinite(gradient).all())
        return not self.diverged

    def trajectory(self, rate: float, final: "TwoLayerNetwork") -> Trajectory:
        rows = torch.tensor(self.rows, dtype=torch.float64)
        # inf - inf at the last step of a diverged run is NaN; infinity says the same and compares.
        loss, movement, gradient_norm = torch.where(rows.isnan(), torch.inf, rows).T
        return Trajectory(
            rate,
            loss,
            movement,
            gradient_norm,
            final,
            snapshots=self.snapshots,
            kernel_drift=self.drift,
            diverged=self.diverged,
        )


def _largest_column(matrix: Tensor) -> float:
    # Much faster on CPU than matrix.norm(dim=0).max().
    return matrix.square().sum(dim=0).max().sqrt().item()
