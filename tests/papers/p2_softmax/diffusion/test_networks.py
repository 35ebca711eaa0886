"""The trained networks: softmax against plain gradient descent, its checkpoints, and the ReLU network."""

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p2_softmax.diffusion import AdamDescent, Descent, MLPScore, checkpoints, label_loss
from attangent.papers.p2_softmax.diffusion.networks import curvature, train
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, VALIDATION, softmax


def test_training_is_gradient_descent_on_the_network():
    model = softmax(steps=25).fit(DATA)
    X = model.inputs(PROCESS, DATA.t, DATA.x)
    start = model.start(2)
    reference = start.descend(X, DATA.y, 1.5 / curvature(start, X), 25).final
    torch.testing.assert_close(model.network.W, reference.W, rtol=1e-10, atol=1e-12)


def test_rate_is_in_units_of_the_largest_curvature():
    model = softmax()
    X = model.inputs(PROCESS, DATA.t, DATA.x)
    start = model.start(2)
    dense = start.m * torch.linalg.eigvalsh(start.kernel(X))[-1].item()
    assert curvature(start, X) == pytest.approx(dense, rel=1e-4)


def test_it_starts_at_zero_and_checkpoints_can_be_had():
    model = softmax(steps=30, keep=(7,)).fit(DATA)
    assert model.at(0).posterior_mean(DATA.t, DATA.x).abs().max() < 1e-12
    assert model.step == 30
    assert label_loss(model.at(7), DATA) > label_loss(model, DATA)
    assert model.step == 30  # at() leaves the model as it is
    with pytest.raises(AttangentError, match="step 1000 is not a checkpoint"):
        model.at(1000)


def test_validation_chooses_the_best_checkpoint():
    model = softmax(steps=60).fit(DATA, VALIDATION)
    losses = {step: label_loss(model.at(step), VALIDATION) for step in model.history.snapshots}
    assert model.step == min(losses, key=losses.get)
    assert losses[model.step] == pytest.approx(model.history.validation[model.step])


def test_a_rate_above_the_limit_grows_the_loss():
    # A softmax is bounded: it does not overflow, it just does not learn.
    stable, unstable = (softmax(steps=40, trainer=Descent(40, rate)).fit(DATA) for rate in (1.9, 40.0))
    assert label_loss(unstable, DATA) > label_loss(stable.at(0), DATA) > label_loss(stable, DATA)


def test_equal_seeds_give_equal_models():
    first, second, other = (softmax(steps=5, seed=seed).fit(DATA) for seed in (1, 1, 2))
    assert torch.equal(first.network.W, second.network.W)
    assert not torch.equal(first.network.W, other.network.W)


def test_an_mlp_of_equal_size_has_as_many_weights():
    model = softmax(m=256)
    mlp = MLPScore.sized_like(model, 2, AdamDescent(2, 0.01)).fit(DATA)
    assert abs(mlp.size - 4 * 256) <= 4
    assert mlp.inputs == model.inputs


def test_gradient_of_the_mlp_descends():
    mlp = MLPScore(PROCESS, 16, trainer=AdamDescent(50, 0.02)).fit(DATA)
    losses = [label_loss(mlp.at(step), DATA) for step in (0, 10, 50) if step in mlp.history.snapshots]
    assert losses == sorted(losses, reverse=True)


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
