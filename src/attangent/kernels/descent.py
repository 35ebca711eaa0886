"""Gradient descent on a network of this room, with what the theorems speak of recorded on the way."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from attangent._core.checks import check_positive, check_steps
from attangent._core.display import brief_fields
from attangent._core.errors import AttangentError
from attangent.kernels._inputs import as_points, as_targets


class Network(Protocol):
    """What descent and prediction ask of a network: hidden weights W (d_in, m) and closed forms in them."""

    d_in: int
    d_out: int
    m: int
    W: Tensor

    def with_weights(self, W: Tensor) -> Self: ...
    def forward(self, X: Any) -> Tensor: ...
    def gradient(self, X: Any, Y: Any) -> Tensor: ...
    def kernel(self, X: Any, X2: Any = None) -> Tensor: ...


@dataclass(frozen=True)
class Trajectory:
    """A run of gradient descent; entry t of each (steps + 1,) tensor belongs to the weights after t steps.

    `steps` counts the steps that were made: fewer than asked where the loss ceased to be finite (`diverged`).
    `snapshots` holds (network, step) at the steps named in `keep`.
    """

    rate: float
    loss: Tensor
    """1/2 |F(t) - Y|^2."""
    movement: Tensor
    """The largest |w_r(t) - w_r(0)| over the neurons."""
    gradient_norm: Tensor
    """The largest |dL/dw_r| over the neurons at step t."""
    final: Any
    snapshots: dict[int, Any]
    kernel_drift: dict[int, float]
    """|H(t) - H(0)|_F at the steps named in `drift_at`."""
    diverged: bool

    __repr__ = brief_fields

    @property
    def steps(self) -> int:
        return len(self.loss) - 1


def descend(
    network: Network,
    X: Any,
    Y: Any,
    rate: float,
    steps: int,
    *,
    keep: Iterable[int] = (),
    drift_at: Iterable[int] = (),
) -> Trajectory:
    """Run W <- W - rate dL/dW for `steps` steps; the given network stays as it is.

    It ends early, marked `diverged`, where loss, gradient or weights cease to be finite. `keep` names steps
    whose network is kept, `drift_at` steps at which the kernel is compared with the one at the start (each
    costs one kernel).
    """
    X = as_points("X", X, network.d_in, network.W)
    Y = as_targets(Y, X, network.d_out, network.W)
    check_positive("rate", rate)
    keep, drift_at = _steps("keep", keep, steps), _steps("drift_at", drift_at, steps)
    recorder = _Recorder(network, X, Y, keep, drift_at)
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


def _steps(name: str, wanted: Iterable[int], steps: int) -> frozenset[int]:
    check_steps("steps", steps)
    chosen = frozenset(wanted)
    beyond = sorted(step for step in chosen if not 0 <= step <= steps)
    if beyond:
        raise AttangentError(f"{name} names step {beyond[0]}, expected steps from 0 to {steps}")
    return chosen


class _Recorder:
    def __init__(
        self, network: Network, X: Tensor, Y: Tensor, keep: frozenset[int], drift_at: frozenset[int]
    ):
        self.start, self.X, self.Y, self.keep, self.drift_at = network, X, Y, keep, drift_at
        self.rows: list[tuple[float, float, float]] = []
        self.snapshots: dict[int, Any] = {}
        self.drift: dict[int, float] = {}
        self.first_kernel = network.kernel(X) if drift_at else None
        self.diverged = False

    def note(self, step: int, network: Network, gradient: Tensor) -> bool:
        """Record one step; False where the loss is no longer finite."""
        loss = 0.5 * (network.forward(self.X) - self.Y).square().sum()
        moved = _largest_column(network.W - self.start.W)
        self.rows.append((loss.item(), moved, _largest_column(gradient)))
        if step in self.keep:
            self.snapshots[step] = network
        if step in self.drift_at and self.first_kernel is not None:
            self.drift[step] = (network.kernel(self.X) - self.first_kernel).norm().item()
        self.diverged = not (torch.isfinite(loss) and torch.isfinite(gradient).all())
        return not self.diverged

    def trajectory(self, rate: float, final: Network) -> Trajectory:
        rows = torch.tensor(self.rows, dtype=torch.float64)
        loss, movement, gradient_norm = torch.where(rows.isnan(), torch.inf, rows).T  # beyond all numbers
        kept = self.snapshots, self.drift
        return Trajectory(rate, loss, movement, gradient_norm, final, *kept, diverged=self.diverged)


def _largest_column(matrix: Tensor) -> float:
    """The largest norm of a column; much faster on CPU than norm(dim=0)."""
    return matrix.square().sum(dim=0).max().sqrt().item()
