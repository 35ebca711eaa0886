"""The training loop on a problem that can be done by hand."""

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p2_softmax.diffusion import AdamDescent, Descent, checkpoints
from attangent.papers.p2_softmax.diffusion.training import train


def quadratic(trainer, **options):
    """1/2 (w - 3)^2 from w = 0, with curvature 1."""
    w = torch.zeros(1, dtype=torch.float64)
    optimiser = trainer.optimiser([w], lambda: 1.0, 1)
    return train([w], lambda: [w - 3.0], optimiser, trainer.steps, **options)


def test_descent_by_hand():
    course = quadratic(Descent(steps=4, rate=0.5))
    assert [course.snapshots[t][0].item() for t in range(5)] == [0.0, 1.5, 2.25, 2.625, 2.8125]
    assert course.best_step == 4


def test_adam_makes_steps_of_its_rate():
    course = quadratic(AdamDescent(steps=3, rate=0.1))
    moved = [course.snapshots[t][0].item() for t in range(4)]
    assert moved[1] == pytest.approx(0.1, rel=1e-6)
    assert moved[3] == pytest.approx(0.3, rel=0.02)


def test_a_rate_above_two_diverges():
    with pytest.raises(AttangentError, match="diverged before step"):
        quadratic(Descent(steps=3000, rate=3.0))


def test_the_best_checkpoint_is_chosen():
    losses = iter([5.0, 1.0, 2.0, 3.0, 4.0])
    course = quadratic(Descent(steps=4, rate=0.5), validate=lambda: next(losses))
    assert course.best_step == 1


@pytest.mark.parametrize("steps", [1, 2, 7, 1000, 10**8])
def test_checkpoints_span_the_run(steps):
    found = checkpoints(steps, 12)
    assert found[0] == 0
    assert found[-1] == steps
    assert found == sorted(set(found))
    assert len(found) <= 14


@pytest.mark.parametrize(("steps", "count"), [(0, 12), (-1, 12), (10, 0)])
def test_checkpoints_of_no_run_are_refused(steps, count):
    with pytest.raises(AttangentError, match="expected a whole number of at least 1"):
        checkpoints(steps, count)
