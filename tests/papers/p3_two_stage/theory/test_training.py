"""SGD with noise and decay: the split into signal and noise, schedules, and what is recorded."""

import math

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, ReluWeights
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, stationary_noise, train

CONFIG = NoisySGD(
    (ConstantRate(2.0, 7), ConstantRate(0.5, 6)), weight_decay=0.01, init_std=0.3, record_every=4
)


def start(variant="bias", runs=3):
    data = TwoStageData(d=4, L=6)
    return ReluAttention(4, variant, std=0.3, runs=runs, seed=1), data.sample(9, runs=runs, seed=1)


@pytest.mark.parametrize("variant", ["paper", "bias", "signed"])
def test_steps_follow_equation_4(variant):
    model, prompts = start(variant)
    seen = []
    begin = model.weights
    train(model, prompts, CONFIG, observer=lambda *step: seen.append(step))
    weights = begin
    for step, rate, gradient, xi in seen[:-1]:
        assert rate == (2.0 if step < 7 else 0.5)
        wanted = model.gradient(prompts, weights)
        for found, expected in zip(gradient, wanted, strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
        W, V = ((1 - rate * 0.01) * weights[i] - rate * (wanted[i] + xi[i]) for i in (0, 1))
        weights = ReluWeights(W, V, weights.bias - rate * wanted.bias)
    for found, expected in zip(model.weights, weights, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    assert len(seen) == 14


def test_what_is_recorded():
    model, prompts = start()
    course = train(model, prompts, CONFIG)
    assert course.steps.tolist() == [0, 4, 7, 8, 12, 13]
    assert [moment.step for moment in course.ends] == [7, 13]
    assert course.at(7) == 2
    assert course.losses.K1.shape == (6, 3)
    assert course.singular_W.shape == (6, 3, 4)
    end = course.ends[-1]
    torch.testing.assert_close(course.norm_V[-1], end.signal.V.flatten(1).norm(dim=1))
    torch.testing.assert_close(
        course.singular_V[-1].square().sum(-1).sqrt(), model.weights.V.flatten(1).norm(dim=1)
    )
    torch.testing.assert_close(course.losses.K2[-1], model.losses(prompts).K2)
    assert (course.norm_W[0] == 0).all()


def test_noise_keeps_its_spread():
    data = TwoStageData(d=12, L=3)
    model = ReluAttention(12, std=0.7, runs=20, seed=0)
    config = NoisySGD((ConstantRate(5.0, 60),), weight_decay=0.02, init_std=0.7, record_every=60)
    course = train(model, data.sample(2, runs=20), config)
    assert course.ends[0].noise.W.std().item() == pytest.approx(0.7, rel=0.03)


def test_stationary_noise():
    kept = 1 - 20 * 5e-4
    assert (stationary_noise(1.0, 20, 5e-4) * 20) ** 2 + kept**2 == pytest.approx(1.0)
    assert NoisySGD((ConstantRate(1.0, 1),), 0.1, 1.0, noise_std=0.0).xi_std == 0.0


def test_training_repeats_and_runs_do_not_touch():
    (first, prompts), (again, _) = start(), start()
    a, b = train(first, prompts, CONFIG, seed=3), train(again, prompts, CONFIG, seed=3)
    assert torch.equal(a.losses.K, b.losses.K)
    other = train(start()[0], prompts, CONFIG, seed=4)
    assert not torch.equal(a.losses.K, other.losses.K)


def test_the_easy_part_is_learned_first():
    """The setting of the stage experiment, cut short."""
    data = TwoStageData(d=16, L=33)
    model = ReluAttention(16, "bias", std=1.0, runs=3, seed=0)
    config = NoisySGD((ConstantRate(20.0, 100),), weight_decay=5e-4, init_std=1.0, record_every=100)
    course = train(model, data.sample(128, runs=3, seed=0), config)
    assert (course.losses.K1[-1] < 0.25).all()
    assert (course.losses.K2[-1] > 0.65).all()
    assert (course.norm_W[-1] > 3 * course.norm_V[-1]).all()
    assert math.isfinite(course.losses.K.sum().item())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConstantRate(0.0, 5), "rate is 0.0, expected a finite number above 0"),
        (lambda: ConstantRate(1.0, -1), "steps is -1"),
        (lambda: NoisySGD((), 0.1, 1.0), "stages is empty"),
        (lambda: NoisySGD((ConstantRate(20.0, 5),), 0.1, 1.0), "expected below 1"),
        (lambda: NoisySGD((ConstantRate(1.0, 5),), 0.0, 1.0), "weight_decay is 0.0"),
        (lambda: NoisySGD((ConstantRate(1.0, 5),), 0.1, 1.0, noise_std=-1.0), "noise_std is -1.0"),
        (lambda: NoisySGD((ConstantRate(1.0, 5),), 0.1, 1.0, record_every=0), "record_every is 0"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AttangentError, match=message):
        make()
