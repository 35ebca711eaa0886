"""What runs of one method would come to, at several rates: losses and scores from the tangent at the start.

All rates are first carried out on one tangent. A run that leaves it, which shows when the model itself is
asked at the parameters that the tangent foretells, is carried out again and set right on its way: cheaply, by
the model's outputs there with the derivatives of the start, or by whole new tangents.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attangent._checks import check_not_negative, check_positive, check_size
from attangent._errors import AttangentError
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.kernels.modules import TangentModel, departure
from attangent.tuning.planning.network import Network
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.rollout import Course, Rollout

_PROBED = 16
"""Rows trained on, and rows scored on, at which the model is asked whether it follows its tangent."""
_LOST = 1.0
"""Above this departure nothing sets a run right."""
FITTED = 0.02
"""The mean training loss below which rows are fitted from the start."""
_AT_EASE = 0.1
"""Up to this departure, scores are taken from the tangent; above, from the model at the foretold weights."""


@dataclass(frozen=True)
class Care:
    """How much work a prediction is worth.

    orders: in how many orders of the rows each run is carried out.
    anchors: how often a run that leaves its tangent is set right by the model's outputs where it is.
    tangents: how often it is given a new tangent instead, which costs several times as much.
    follows: the departure from the tangent up to which a run is said to follow it; `follows_fitted` where the
        rows are fitted from the start (a mean loss below 0.02), so that AdamW magnifies what noise there is.
    draws: how often dropout is drawn for each row.
    """

    orders: int = 3
    anchors: int = 3
    tangents: int = 0
    follows: float = 0.4
    follows_fitted: float = 0.12
    draws: int = 2

    def __post_init__(self) -> None:
        check_size("orders", self.orders)
        check_size("draws", self.draws)
        check_positive("follows", self.follows)
        check_positive("follows_fitted", self.follows_fitted)
        for name in ("anchors", "tangents"):
            value = getattr(self, name)
            if check_not_negative(name, value) != int(value):
                raise AttangentError(f"{name} is {value!r}, expected a whole number")

    def trusts(self, departure: float, loss: float) -> bool:
        """Whether a run with this departure and mean training loss is said to follow its tangent."""
        return departure <= (self.follows_fitted if loss < FITTED else self.follows)

    @property
    def corrections(self) -> int:
        """How often a run that leaves its tangent is set right."""
        return self.tangents or self.anchors


@dataclass(frozen=True)
class Scene:
    """One method on one task: the network, the rows to train and to score on, and the loss."""

    network: Network
    objective: Objective
    rows: Any
    targets: Tensor
    held: Any
    held_targets: Tensor
    noise: Tensor
    memory_limit: float = DEFAULT_MEMORY_LIMIT


@dataclass(frozen=True)
class Expected:
    """One run as it is expected to go, in S orders of the rows.

    losses: of each step's batch (steps), the mean over orders. held_losses, scores: on the rows to score on,
    at the end of each order (S). departure: how far the model is from the tangent of the start at the end of
    the run as that tangent foretells it.
    corrections: how often the run was set right on its way.
    """

    rate: float
    epochs: float
    losses: Tensor
    held_losses: Tensor
    scores: Tensor
    departure: float
    corrections: int


class Expectation:
    """Runs of one method from the same start."""

    def __init__(self, ground: Scene, tangent: TangentModel, care: Care):
        self.ground, self.tangent, self.care = ground, tangent, care
        self.probed, self.probed_held = _some(ground.rows), _some(ground.held)

    def runs(
        self,
        rates: list[float],
        weights: Tensor,
        lengths: list[list[Course]],
        report: Callable[[float], None] = lambda rate: None,
    ) -> list[Expected]:
        """What is expected at each rate, for each length of training; a length has a course for each order.

        weights (R, P): each weight's rate. Only runs of the last length are set right, and `report` is called
        with their rate before; shorter ones that leave the tangent are left out.
        """
        full = self._on_one_tangent(rates, weights, lengths[-1])
        trails = []
        for courses in lengths[:-1]:
            shorter = self._on_one_tangent(rates, weights, courses, full)
            trails += [trail for trail in shorter if trail.departure <= self.care.follows]
        for run, trail in enumerate(full):
            if self.care.follows < trail.departure <= _LOST and self.care.corrections:
                report(trail.rate)
                trail = self._set_right(trail, weights[run : run + 1], lengths[-1])
            trails.append(trail)
        return [self._expected(trail, held) for trail, held in zip(trails, self._held(trails), strict=True)]

    def _on_one_tangent(
        self,
        rates: list[float],
        weights: Tensor,
        courses: list[Course],
        longer: "Sequence[_Trail]" = (),
    ) -> "list[_Trail]":
        """One trail for each rate. A longer run that follows the tangent vouches for the shorter one."""
        rollouts = [self._rollout(course, weights).advance(self.tangent, course.steps) for course in courses]
        losses = torch.stack([torch.stack(rollout.losses) for rollout in rollouts])  # (S, steps, R)
        ends = torch.stack([rollout.theta for rollout in rollouts])  # (S, R, P)
        left = [trail.departure for trail in longer] or [math.inf] * len(rates)
        unknown = [run for run, found in enumerate(left) if found > self.care.follows]
        for run, found in zip(unknown, self._departures(ends[0, unknown]) if unknown else (), strict=True):
            left[run] = found
        return [
            _Trail(rate, courses[0].epochs, ends[:, run], losses[..., run], left[run], 0)
            for run, rate in enumerate(rates)
        ]

    def _set_right(self, trail: "_Trail", weights: Tensor, courses: list[Course]) -> "_Trail":
        """The run in every order, set right wherever the first order comes by a milestone."""
        rollouts, tangent = [self._rollout(course, weights) for course in courses], self.tangent
        for milestone in courses[0].milestones(self.care.corrections):
            for rollout in rollouts:
                rollout.advance(tangent, milestone)
            tangent = self._tangent_at(rollouts[0].theta[0].clone())
        for rollout in rollouts:
            rollout.advance(tangent, rollout.course.steps)
        ends = torch.cat([rollout.theta for rollout in rollouts])
        losses = torch.stack([torch.stack(rollout.losses)[:, 0] for rollout in rollouts])
        return replace(trail, ends=ends, losses=losses, corrections=self.care.corrections)

    def _tangent_at(self, theta: Tensor) -> TangentModel:
        """A new tangent, or the model's outputs there with the derivatives of the start."""
        network, rows = self.ground.network, self.ground.rows
        if self.care.tangents:
            return network.tangent(rows, theta, self.ground.memory_limit)
        return replace(self.tangent, outputs=network.outputs(rows, theta), theta=theta)

    def _rollout(self, course: Course, weights: Tensor) -> Rollout:
        ground = self.ground
        return Rollout(course, ground.network.theta, weights, ground.objective, ground.targets, ground.noise)

    def _departures(self, thetas: Tensor) -> list[float]:
        """|F - F_tangent| / |F - F_0| at the weights (R, P) that the tangent foretells.

        The larger one of that at rows trained on and that at rows scored on, where training shows less.
        """
        network, scene = self.ground.network, self.ground
        rows = [scene.rows[int(i)] for i in self.probed]
        held = [scene.held[int(i)] for i in self.probed_held]
        foretold, _ = self.tangent.at(thetas, self.probed)
        starts = self.tangent.outputs[self.probed], network.outputs(held)
        along = network.along(held, thetas)
        return [
            max(
                departure(network.outputs(rows, theta), foretold[run], starts[0]),
                departure(network.outputs(held, theta), along[run], starts[1]),
            )
            for run, theta in enumerate(thetas)
        ]

    def _held(self, trails: "list[_Trail]") -> Tensor:
        """Outputs at the rows to score on, (R, S, n, O), at the ends of all runs.

        They follow the tangent at the start; a run that leaves it is moved so that its first order gives what
        the model itself gives there.
        """
        network, held = self.ground.network, self.ground.held
        ends = torch.stack([trail.ends for trail in trails])
        found = network.along(held, ends.flatten(0, 1)).unflatten(0, ends.shape[:2])
        for run, trail in enumerate(trails):
            if trail.departure > _AT_EASE:
                found[run] += network.outputs(held, ends[run, 0]) - found[run, 0].clone()
        return found

    def _expected(self, trail: "_Trail", outputs: Tensor) -> Expected:
        objective, targets = self.ground.objective, self.ground.held_targets
        held_losses, scores = objective.losses(outputs, targets), objective.scores(outputs, targets)
        return Expected(
            trail.rate,
            trail.epochs,
            trail.losses.mean(dim=0),
            held_losses,
            scores,
            trail.departure,
            trail.corrections,
        )


@dataclass(frozen=True)
class _Trail:
    """A run's parameters at the end of each order (S, P), and its losses (S, steps)."""

    rate: float
    epochs: float
    ends: Tensor
    losses: Tensor
    departure: float
    corrections: int


def _some(rows: Any) -> Tensor:
    return torch.arange(0, len(rows), max(1, len(rows) // _PROBED))[:_PROBED]
