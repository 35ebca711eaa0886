"""Runs on a tangent against runs of `tune`'s own trainer."""

from dataclasses import replace

import pytest
import torch

from attangent.tuning.methods import Method
from attangent.tuning.planning.expected import Care
from attangent.tuning.planning.network import targets_of
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.rollout import Course, Rollout, rates_by_weight
from attangent.tuning.planning.tangents import OutputTangent
from attangent.tuning.recipe import Recipe
from attangent.tuning.running import run_method
from attangent.tuning.training import Training, score
from tests.tuning.planning.cases import SHORT, case

ONE = Care(orders=1)


def real(given, rate, folder):
    """Losses of all steps, and the score on held-out rows, of a run by transformers' Trainer."""
    losses = []
    method = replace(given.method, learning_rate=rate)
    outcome = run_method(
        given.own_task(),
        method,
        given.training,
        Recipe(),
        folder,
        lambda step, steps, loss: losses.append(loss),
    )
    return torch.tensor(losses), score(outcome.trainer, given.held, "classification")


def test_a_head_alone_is_foretold_at_any_rate(bert, tmp_path):
    given = case(bert, "head", replace(SHORT, by_length=True))
    losses, scores = real(given, 0.3, tmp_path)
    (found,) = given.expected([0.3], ONE)
    assert torch.allclose(found.losses, losses, atol=1e-4, rtol=1e-3)
    assert found.scores.item() == pytest.approx(scores["accuracy"])
    assert found.held_losses.item() == pytest.approx(scores["loss"], rel=1e-3)
    assert found.departure < 1e-3


@pytest.mark.parametrize("method", ["ntk", "lora"])
def test_small_rates_are_foretold_step_by_step(bert, tmp_path, method):
    given = case(bert, method, replace(SHORT, head_rate=1e-5))
    losses, scores = real(given, 1e-5, tmp_path)
    (found,) = given.expected([1e-5], ONE)
    assert torch.allclose(found.losses, losses, rtol=2e-3, atol=1e-5)
    assert found.held_losses.item() == pytest.approx(scores["loss"], rel=2e-3)


def test_new_tangents_come_nearer_to_a_run_that_left_the_first(bert, tmp_path):
    given = case(bert, "ntk", replace(SHORT, epochs=4))
    rate = 0.005
    losses, _ = real(given, rate, tmp_path)
    (once,) = given.expected([rate], ONE)
    (often,) = given.expected([rate], replace(ONE, tangents=7))
    assert once.departure > 0.05
    assert often.corrections == 7
    assert (often.losses - losses).abs().mean() < 0.5 * (once.losses - losses).abs().mean()


@pytest.mark.parametrize(
    ("training", "steps"),
    [
        (Training(epochs=2, batch=8), 8),
        (Training(epochs=1.5, batch=8), 6),
        (Training(epochs=1, batch=4, accumulate=2), 4),
    ],
)
def test_a_course_has_the_steps_of_the_trainer(training, steps):
    course = Course.of([{} for _ in range(28)], training)
    assert course.steps == len(course.batches) == steps
    first = [place for batch in course.batches[:4] for place in batch]
    assert sorted(first) == list(range(28))
    assert course.milestones(0) == []
    way = [course.optimiser.factor(step) for step in range(steps)]
    (middle,) = course.milestones(1)
    assert sum(way[:middle]) >= sum(way) / 2 > sum(way[: middle - 1])


def test_classes_that_weigh_the_same(bert, tmp_path):
    given = case(bert, "head")
    weights = torch.tensor([3.0, 0.5])
    given = replace(given, task=replace(given.task, weights=weights))
    losses, _ = real(given, 0.05, tmp_path)
    adapted, network = given.network()
    course = Course.of(given.task.rows, given.training)
    by_weight = rates_by_weight(adapted, [0.05], given.training, Method("head").technique.rate_scale)
    objective = Objective(network.basis, weights=weights)
    start = Rollout(course, network.theta, by_weight, objective, targets_of(given.task.rows))
    tangent = OutputTangent(network.tangent(given.task.rows))
    found = start.advance(tangent, course.steps)
    assert torch.allclose(torch.cat(found.losses), losses, atol=1e-4, rtol=1e-3)
