"""What runs of one method would come to, at several rates: losses and scores, before any is made.

All runs are carried out on a tangent. At the weights that it foretells for the end of a run the model itself
is asked at some rows. That gives a second figure for loss and score; the middle of the two is expected, and
where they lie far apart the run cannot be foretold.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attangent._checks import check_not_negative, check_size
from attangent._errors import AttangentError
from attangent.kernels.modules import departure
from attangent.tuning.planning.certainty import FAR, is_sure_of_loss
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.rollout import Course, Rollout
from attangent.tuning.planning.standing_in import StandIn
from attangent.tuning.planning.tangents import Tangent

_ASKED = 48
"""Rows trained on at which the model is asked."""
_AT_EASE = 0.2
"""The departure up to which it is not asked at the rows to score on."""
_FITTED = 0.02
"""The mean training loss below which rows are fitted from the start."""


@dataclass(frozen=True)
class Care:
    """How much work a prediction is worth.

    orders: in how many orders of the rows each run is carried out.
    tangents: how often a run that cannot be foretold is given a new tangent on its way; each costs as much as
        half a run.
    draws: how often dropout is drawn for each row.
    scored: at how many of the rows to score on, at most, scores are foretold.
    """

    orders: int = 2
    tangents: int = 0
    draws: int = 1
    scored: int = 512

    def __post_init__(self) -> None:
        for name in ("orders", "draws", "scored"):
            check_size(name, getattr(self, name))
        if check_not_negative("tangents", self.tangents) != int(self.tangents):
            raise AttangentError(f"tangents is {self.tangents!r}, expected a whole number")


@dataclass(frozen=True)
class Scene:
    """One method on one task: what stands in for its model, the rows to train and to score on, the loss."""

    stand_in: StandIn
    objective: Objective
    rows: Any
    targets: Tensor
    held: Any
    held_targets: Tensor


@dataclass(frozen=True)
class Expected:
    """One run as it is expected to go, in S orders of the rows.

    losses: of each step's batch (steps), the mean over orders. held_losses, scores: on the rows to score on,
    at the end of each order (S).
    departure: |F - F_tangent| / |F - F_0| at rows trained on, at the end.
    loss_gap, score_gap: how far the model's own figures lie from the tangent's. That of the loss is relative,
    and 1 where the loss is next to nothing, so that dropout decides it, or features are followed in part.
    corrections: how many new tangents the run was given on its way. fitted: whether the loss is next to
    nothing from the start.
    """

    rate: float
    epochs: float
    losses: Tensor
    held_losses: Tensor
    scores: Tensor
    departure: float
    loss_gap: float
    score_gap: float
    corrections: int
    fitted: bool = False

    @property
    def variance(self) -> float:
        """Of the score over orders; 0 where there is one."""
        return self.scores.var().item() if len(self.scores) > 1 else 0.0


def held_back(runs: Sequence[Expected]) -> list[Expected]:
    """The runs with the scores of those that are far from their tangent put right.

    Such a run is given the score of the next smaller rate of its length that is not far: what a tangent says
    of larger ones is wrong, mostly too low. Where no rate is near, or new tangents were taken, it is left.
    """
    found, last = list(runs), dict[float, Expected]()
    for place in sorted(range(len(runs)), key=lambda place: runs[place].rate):
        run = runs[place]
        if run.departure <= FAR or run.corrections:
            last[run.epochs] = run
        elif run.epochs in last:
            near = last[run.epochs]
            found[place] = replace(run, scores=near.scores, held_losses=near.held_losses, score_gap=0.0)
    return found


def usual_variance(runs: Sequence[Expected]) -> float:
    """The median of the runs' variances over orders; each by itself is of very few."""
    found = [run.variance for run in runs if len(run.scores) > 1]
    return statistics.median(found) if found else 0.0


@dataclass(frozen=True)
class Gap:
    """What the model's own figures have more than the tangent's at the end of a run."""

    departure: float = 0.0
    loss: float = 0.0
    held_loss: float = 0.0
    score: float = 0.0

    def after(self, share: float) -> "Gap":
        """That of a run of this share of the length: what a tangent leaves out grows as the way squared."""
        return Gap(share * self.departure, *(share**2 * x for x in (self.loss, self.held_loss, self.score)))


@dataclass(frozen=True)
class Trail:
    """A run on tangents: its weights at the end of each order (S, P), and its losses (S, steps)."""

    rate: float
    courses: list[Course]
    ends: Tensor
    losses: Tensor
    corrections: int = 0

    @property
    def steps(self) -> int:
        return self.courses[0].steps


class Expectation:
    """Runs of one method from the same start, whose score is known once they are."""

    def __init__(self, scene: Scene, care: Care):
        self.scene, self.care, self.start = scene, care, float("nan")

    def runs(
        self,
        rates: list[float],
        weights: Tensor,
        lengths: list[list[Course]],
        report: Callable[[float], None] = lambda rate: None,
    ) -> list[Expected]:
        """What is expected at each rate, for each length of training; a length has a course for each order.

        weights (R, P): each weight's rate. Runs of the last length that are not sure are given new tangents,
        where care is taken for that, and `report` is called with their rate before.
        """
        whole = self._on_one_tangent(rates, weights, lengths[-1])
        shorter = [
            trail for courses in lengths[:-1] for trail in self._on_one_tangent(rates, weights, courses[:1])
        ]
        found = self._expected([*shorter, *whole], len(whole))
        for run in range(len(whole) if self.care.tangents else 0):
            place = len(shorter) + run
            if not is_sure_of_loss(found[place].departure, found[place].loss_gap):
                report(rates[run])
                found[place] = self._set_right(found[place], weights[run : run + 1], lengths[-1])
        return held_back(found)

    def _on_one_tangent(self, rates: list[float], weights: Tensor, courses: list[Course]) -> list[Trail]:
        """One trail for each rate."""
        tangent = self.scene.stand_in.tangent
        rollouts = [self._rollout(course, weights).advance(tangent, course.steps) for course in courses]
        losses = torch.stack([torch.stack(rollout.losses) for rollout in rollouts])  # (S, steps, R)
        ends = torch.stack([rollout.theta for rollout in rollouts])  # (S, R, P)
        return [Trail(rate, courses, ends[:, run], losses[..., run]) for run, rate in enumerate(rates)]

    def _rollout(self, course: Course, weights: Tensor) -> Rollout:
        scene = self.scene
        start, noise = scene.stand_in.network.theta, scene.stand_in.noise
        return Rollout(course, start, weights, scene.objective, scene.targets, noise)

    def _expected(self, trails: list[Trail], whole: int) -> list[Expected]:
        """Runs as they are expected; the last `whole` of them are those that the model is asked about."""
        scene, start = self.scene, self.scene.stand_in.network.theta[None]
        held = scene.stand_in.along(scene.held, torch.cat([start, *(trail.ends for trail in trails)]))
        self.start = scene.objective.scores(held[:1], scene.held_targets).item()
        outputs = held[1:].split([len(trail.ends) for trail in trails])
        both = list(zip(trails, outputs, strict=True))
        gaps = {trail.rate: self._gap(trail, own[0]) for trail, own in both[-whole:]}
        longest = trails[-1].steps
        return [
            self._figures(trail, own, gaps[trail.rate].after(trail.steps / longest)) for trail, own in both
        ]

    def _figures(self, trail: Trail, held: Tensor, gap: Gap) -> Expected:
        objective, targets = self.scene.objective, self.scene.held_targets
        way = trail.courses[0].way
        losses = trail.losses.mean(dim=0) + 0.5 * gap.loss * way.square()
        loss = losses.mean().item()
        fitted = loss < _FITTED and not objective.values
        stand_in = self.scene.stand_in
        unknown = stand_in.is_narrow or (fitted and stand_in.noise is not None)
        return Expected(
            trail.rate,
            trail.courses[0].epochs,
            losses,
            objective.losses(held, targets) + 0.5 * gap.held_loss,
            objective.scores(held, targets) + 0.5 * gap.score,
            gap.departure,
            1.0 if unknown else abs(gap.loss * way.square().mean().item()) / max(loss, 1e-12),
            abs(gap.score),
            trail.corrections,
            fitted,
        )

    def _gap(self, trail: Trail, held: Tensor) -> Gap:
        """The model beside its tangent where the first order ends; held (n, O) are the tangent's outputs."""
        scene, stand_in, theta = self.scene, self.scene.stand_in, trail.ends[0]
        if stand_in.is_exact:
            return Gap()
        asked = _some(len(scene.rows), _ASKED)
        foretold = stand_in.tangent.at(torch.stack([stand_in.network.theta, theta]), asked)[0]
        own = stand_in.network.outputs(spread_out(scene.rows, _ASKED), theta)
        left = departure(own, foretold[1], foretold[0])
        loss = self._differences(own, foretold[1], scene.targets[asked])[0]
        if left <= _AT_EASE or (left > FAR and not self.care.tangents):
            return Gap(left, loss)
        own = stand_in.network.outputs(scene.held, theta)
        return Gap(left, loss, *self._differences(own, held, scene.held_targets))

    def _differences(self, own: Tensor, foretold: Tensor, targets: Tensor) -> tuple[float, float]:
        """What the model has more than the tangent, in loss and in score."""
        both, objective = torch.stack([own, foretold]), self.scene.objective
        losses, scores = objective.losses(both, targets), objective.scores(both, targets)
        return (losses[0] - losses[1]).item(), (scores[0] - scores[1]).item()

    def _set_right(self, run: Expected, weights: Tensor, courses: list[Course]) -> Expected:
        """The run in every order, with a new tangent wherever the first order comes by a milestone."""
        scene, stand_in = self.scene, self.scene.stand_in
        rollouts, tangent = [self._rollout(course, weights) for course in courses], stand_in.tangent
        for milestone in courses[0].milestones(self.care.tangents):
            _advance(rollouts, tangent, milestone)
            stand_in = stand_in.at(scene.rows, rollouts[0].theta[0].clone())
            tangent = stand_in.tangent
        _advance(rollouts, tangent, courses[0].steps)
        losses = torch.stack([torch.stack(rollout.losses)[:, 0] for rollout in rollouts])
        ends = torch.cat([rollout.theta for rollout in rollouts])
        trail = Trail(run.rate, courses, ends, losses, self.care.tangents)
        here = Expectation(replace(scene, stand_in=stand_in), self.care)
        return replace(here._expected([trail], 1)[0], departure=run.departure)


def _advance(rollouts: list[Rollout], tangent: Tangent, until: int) -> None:
    for rollout in rollouts:
        rollout.advance(tangent, min(until, rollout.course.steps))


def spread_out(rows: Any, most: int) -> list[Any]:
    """At most so many of the rows, evenly spread."""
    return [rows[int(i)] for i in _some(len(rows), most)]


def _some(count: int, most: int) -> Tensor:
    """At most so many places of `count`, evenly spread."""
    return torch.arange(min(count, most)) * count // min(count, most)
