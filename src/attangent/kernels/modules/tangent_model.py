"""A module replaced by its tangent F0 + J (theta - theta0) and trained as the module would be.

The tangent is trained exactly: with the same loss, batches, optimiser and schedule, at a cost that does not
depend on the module once J is there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from attangent._core.arrays import as_double, check_shape, fitted
from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.kinds import describe
from attangent.kernels.factors import blocks
from attangent.kernels.functional import Functional, Output, Points, take
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT, check_limit, refuse_above
from attangent.kernels.modules.jacobian import flattened, jacobian_rows, named
from attangent.kernels.modules.optimiser import Optimiser, OptimiserState

Loss = Callable[[Tensor, Tensor], Tensor]
"""The mean loss of outputs (n, O) and targets (n, ...)."""


@dataclass(frozen=True)
class TangentRun:
    """R training runs of a tangent model, as they stood after the steps `recorded` (M).

    theta: parameters (M, R, P); outputs: those of the training points (M, R, n, O);
    batch_losses: the loss of each step's batch before that step (steps, R).
    """

    recorded: tuple[int, ...]
    theta: Tensor
    outputs: Tensor
    batch_losses: Tensor


@dataclass(frozen=True)
class TangentModel:
    """F0 (n, O), J (n, O, P) and theta0 (P) of a module at its training points."""

    function: Functional
    outputs: Tensor
    jacobian: Tensor
    theta: Tensor

    @classmethod
    def of(
        cls,
        module: nn.Module,
        x: Points,
        params: str | Sequence[str] | None = None,
        output: Output | None = None,
        batch: int = 16,
        memory_limit: float = DEFAULT_MEMORY_LIMIT,
    ) -> "TangentModel":
        """The tangent at the module's present parameters; points, `params`, `output` as in `tangent_kernel`.

        J is kept, in float16 where it would not fit into `memory_limit` bytes otherwise, and refused where
        that does not fit either.
        """
        function = Functional.of(module, params, output)
        count = function.check_points("x", x)
        parts = ((points, take(x, points)) for points in blocks(count, batch))
        return cls.gathered(function, parts, count, memory_limit)

    @classmethod
    def gathered(
        cls,
        function: Functional,
        parts: Iterable[tuple[slice | list[int], Points]],
        count: int,
        memory_limit: float = DEFAULT_MEMORY_LIMIT,
    ) -> "TangentModel":
        """The tangent at `function.parameters` and `count` points that come in parts, as texts of one length
        do: each part says which points it holds."""
        limit, jacobian, outputs = check_limit(memory_limit), None, torch.empty(0)
        for part in parts:
            if not isinstance(part, tuple | list) or len(part) != 2:
                raise AttangentError(f"a part is {type(part).__name__}, expected a pair (places, points)")
            places, x = part
            for rows in jacobian_rows(function, x, function.check_points("x", x)):
                if jacobian is None:
                    jacobian = _room(rows.jacobian, count, limit)
                    outputs = torch.empty(count, *rows.outputs.shape[1:])
                jacobian[places], outputs[places] = rows.jacobian.to(jacobian.dtype), rows.outputs.float()
        if jacobian is None:
            raise AttangentError("there are no points; give at least one")
        return cls(function, outputs, jacobian, flattened(function).float())

    def train(
        self,
        targets: Tensor,
        loss: Loss,
        optimiser: Optimiser,
        rates: Any,
        order: Sequence[Sequence[int]],
        record: Sequence[int],
    ) -> TangentRun:
        """Runs at several rates side by side: step s takes the points `order[s]`.

        rates: numbers (R), or a tensor (R, P) with a rate for each weight. record: after how many steps the
        state is kept.
        """
        _check_order(order, optimiser.steps, len(self.outputs))
        if targets.ndim == 0 or len(targets) != len(self.outputs):
            raise AttangentError(
                f"targets has shape {tuple(targets.shape)}, expected {len(self.outputs)} rows: one a point"
            )
        state = OptimiserState(optimiser, self.theta, _as_rates(rates, len(self.theta)))
        slope = vmap(grad(loss), in_dims=(0, None))
        kept, losses = {0: state.theta.clone()} if 0 in record else {}, []
        for step, points in enumerate(order[: optimiser.steps]):
            rows = torch.as_tensor(points)
            outputs, J = self.at(state.theta, rows)
            losses.append(torch.stack([loss(one, targets[rows]) for one in outputs]))
            state.step(slope(outputs, targets[rows]).flatten(1) @ J)
            if step + 1 in record:
                kept[step + 1] = state.theta.clone()
        theta = torch.stack(list(kept.values()))
        outputs = torch.stack([self.at(one, torch.arange(len(self.outputs)))[0] for one in theta])
        return TangentRun(tuple(kept), theta, outputs, torch.stack(losses))

    def at(self, theta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The tangent's outputs (R, n, O) at these training points for parameters (R, P), and J (n O, P)."""
        theta = fitted("theta", theta, self.theta, "R", len(self.theta))
        if rows.ndim != 1 or rows.dtype != torch.int64 or not _are_within(rows, len(self.outputs)):
            raise AttangentError(
                f"rows are {describe(rows)}, expected numbers of the {len(self.outputs)} points"
            )
        J = self.jacobian[rows].flatten(0, 1).float()
        moved = (theta - self.theta) @ J.T
        return self.outputs[rows] + moved.unflatten(1, (len(rows), -1)), J

    def along(self, x: Points, theta: Tensor, batch: int = 16) -> Tensor:
        """The tangent's outputs (..., n, O) at other points for parameters (..., P); J there is not kept."""
        self.function.check_points("x", x)
        check_size("batch", batch)
        theta = fitted("theta", theta, self.theta, "...", len(self.theta))
        change = (theta - self.theta).reshape(-1, len(self.theta))
        parts = []
        for rows in jacobian_rows(self.function, x, batch):
            moved = torch.einsum("rp,nop->rno", change, rows.jacobian.float())
            parts.append(rows.outputs.float() + moved)
        return torch.cat(parts, dim=1).reshape(*theta.shape[:-1], -1, parts[0].shape[-1])

    def true_outputs(self, x: Points, theta: Tensor) -> Tensor:
        """The module's own outputs (n, O) with parameters theta (P): what the tangent stands for."""
        self.function.check_points("x", x)
        with torch.no_grad():
            return self.function.batch(self.named(theta), x).float()

    def named(self, theta: Tensor) -> dict[str, Tensor]:
        """A flat vector as parameters by name."""
        return named(self.function, fitted("theta", theta, self.theta, len(self.theta)))


def departure(true: Tensor, tangent: Tensor, start: Tensor) -> float:
    """|F - F_tangent| / |F - F0|: 0 in the lazy regime, about 1 where the tangent says nothing."""
    for name, given in (("tangent", tangent), ("start", start)):
        check_shape(name, given, *true.shape)
    true, tangent, start = true.double(), tangent.double(), start.double()
    moved = (true - start).norm().item()
    return (true - tangent).norm().item() / moved if moved > 0 else 0.0


def _room(example: Tensor, count: int, limit: float) -> Tensor:
    shape = (count, *example.shape[1:])
    numbers = count * example[0].numel()
    dtype = torch.float32 if 4 * numbers <= limit else torch.float16
    refuse_above(
        limit,
        dtype.itemsize * numbers,
        f"the Jacobian of {count} points with {example.shape[1]} outputs and {example.shape[2]:,} weights",
        "take fewer points, train fewer weights (params=), or use tangent_operator, which keeps nothing",
    )
    return torch.empty(shape, dtype=dtype)


def _are_within(rows: Tensor, count: int) -> bool:
    return rows.numel() > 0 and int(rows.min()) >= 0 and int(rows.max()) < count


def _as_rates(rates: Any, weights: int) -> Tensor:
    given = as_double("rates", rates).float()
    given = given[:, None] if given.ndim == 1 else given
    fits = given.ndim == 2 and len(given) > 0 and given.shape[1] in (1, weights)
    if not fits or not (given >= 0).all() or not torch.isfinite(given).all():
        raise AttangentError(
            f"rates are {describe(rates)}, expected (runs,) or (runs, {weights}), one a weight, none below 0"
        )
    check_positive("the largest rate", given.max().item())
    return given


def _check_order(order: Sequence[Sequence[int]], steps: int, points: int) -> None:
    if len(order) < steps:
        raise AttangentError(f"the order has {len(order)} batches, expected one for each of {steps} steps")
    if any(not len(batch) or min(batch) < 0 or max(batch) >= points for batch in order[:steps]):
        raise AttangentError(f"a batch is empty or names a point beyond the {points} there are")
