"""Samplers with exact scores, and distances between samples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion import (
    ExactScore,
    ForwardProcess,
    GaussianMixture,
    LinearSchedule,
    Rings,
    mmd,
    mode_coverage,
    sample,
    sample_quality,
    sliced_wasserstein,
)
from tests.papers.p2_softmax.diffusion.examples import PROCESS, TARGET, tilted

EXACT = ExactScore(PROCESS, TARGET)


def truth(target, process, n, seed=0):
    rng = generator(seed, "truth")
    return process.noised(target.draw(n, rng), process.T0, rng)


@pytest.mark.parametrize("method", ["sde", "ode"])
@pytest.mark.parametrize("target", [TARGET, Rings((0.7,), 0.1)], ids=["modes", "ring"])
def test_samples_of_the_exact_score_reach_the_floor(method, target):
    found = sample(ExactScore(PROCESS, target), PROCESS, 8000, method, steps=60, seed=1)
    assert sample_quality(found, truth(target, PROCESS, 8000)).ratio < 1.2


@pytest.mark.parametrize("method", ["sde", "ode"])
def test_moments_of_a_gaussian(method):
    target, process = GaussianMixture.spherical([[1.0, -2.0]], 0.5), ForwardProcess(T=8.0, T0=0.01)
    found = sample(ExactScore(process, target), process, 10_000, method, steps=150)
    torch.testing.assert_close(found.mean(dim=0), torch.tensor([0.995, -1.99]).double(), rtol=0, atol=0.05)
    assert found.var(dim=0).mean().item() == pytest.approx(0.25 * 0.99 + 0.01, rel=0.06)


def test_heun_is_of_second_order():
    ends = [sample(EXACT, PROCESS, 100, "ode", steps=k) for k in (20, 40, 320)]
    coarse, fine = ((end - ends[-1]).norm() for end in ends[:2])
    assert 0.15 < fine / coarse < 0.35


def test_euler_maruyama_errs_less_with_more_steps():
    target = truth(TARGET, PROCESS, 8000)
    few, many = (sample(EXACT, PROCESS, 8000, "sde", steps=k) for k in (5, 40))
    assert sample_quality(few, target).ratio > 1.5 > 1.2 > sample_quality(many, target).ratio


def test_any_schedule_is_walked_as_g_equal_to_one():
    """The same integrals of g give the same samples: T and T0 are chosen to match those of g = 1."""
    fast = ForwardProcess(LinearSchedule(2.0, 2.0, 10.0), T=2.5, T0=0.01)
    slow = sample(EXACT, PROCESS, 50, "ode", steps=30)
    quick = sample(ExactScore(fast, TARGET), fast, 50, "ode", steps=30)
    torch.testing.assert_close(slow, quick, rtol=1e-8, atol=1e-8)


def test_rising_schedules_reach_the_data_too():
    process = ForwardProcess(LinearSchedule(0.2, 1.8, 5.0))
    found = sample(ExactScore(process, TARGET), process, 4000, "sde", steps=80)
    coverage = mode_coverage(found, TARGET.at(process, process.T0))
    assert coverage.covered == 4
    assert coverage.strays < 0.03


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "euler"}, "method is 'euler'"),
        ({"n": 0}, "n is 0"),
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_bad_options(changes, message):
    options = {"n": 4, "steps": 2, **changes}
    with pytest.raises(AttangentError, match=message):
        sample(EXACT, PROCESS, options.pop("n"), options.pop("method", "sde"), **options)


def normal(n, d=2, seed=0, shift=0.0):
    return torch.randn(n, d, generator=generator(seed, "normal"), dtype=torch.float64) + shift


@given(shift=st.floats(-5, 5))
def test_a_shift_in_one_dimension_is_its_own_distance(shift):
    a = normal(50, 1)
    assert sliced_wasserstein(a, a + shift) == pytest.approx(abs(shift), abs=1e-9)


def test_a_shift_in_d_dimensions_is_shortened_by_the_projection():
    a = normal(200, 4)
    found = sliced_wasserstein(a, a + torch.tensor([3.0, 0, 0, 0]), projections=5000)
    assert found == pytest.approx(3.0 / 2, rel=0.04)  # sqrt(E cos^2) = 1 / sqrt(d)


def test_order_does_not_matter():
    a, b = normal(60), normal(60, seed=1)
    order = torch.randperm(60, generator=generator(0, "order"))
    assert sliced_wasserstein(a, b) == pytest.approx(sliced_wasserstein(a[order], b))
    assert sliced_wasserstein(a, b) == pytest.approx(sliced_wasserstein(b, a))


def test_mmd_by_hand():
    a, b = torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [3.0]])
    k = [torch.exp(torch.tensor(-0.5 * r**2)).item() for r in (1.0, 2.0, 3.0)]
    assert mmd(a, b, bandwidth=1.0) == pytest.approx(2 * k[0] - 2 * (k[0] + 2 * k[1] + k[2]) / 4)


def test_mmd_is_zero_on_average_for_one_distribution():
    found = torch.tensor([mmd(normal(100, seed=2 * s), normal(100, seed=2 * s + 1)) for s in range(60)])
    assert found.mean().abs() < 3 * found.std() / 60**0.5
    assert mmd(normal(100), normal(100, seed=1, shift=1.0)) > 10 * found.std()


def test_quality_of_true_samples_is_one_and_of_others_is_not():
    a, b = normal(4000), normal(4000, seed=1)
    assert sample_quality(a, b).ratio == pytest.approx(1.0, abs=0.15)
    assert sample_quality(a + 0.5, b).ratio > 3


def test_coverage_of_draws_and_of_a_lost_mode():
    draws = TARGET.draw(5000, generator(0, "draws"))
    found = mode_coverage(draws, TARGET)
    assert (found.covered, found.modes) == (4, 4)
    assert found.strays == pytest.approx(0.01, abs=0.006)
    assert found.imbalance < 0.03
    lost = mode_coverage(draws[draws[:, 0] > 0], TARGET)
    assert lost.covered == 2
    assert lost.imbalance == pytest.approx(0.5, abs=0.03)


def test_coverage_counts_along_the_axes_of_each_component():
    target = tilted(3)
    found = mode_coverage(target.draw(5000, generator(0, "draws")), target)
    assert found.covered == 3
    assert found.strays < 0.02


def test_bad_samples_are_refused():
    with pytest.raises(AttangentError, match="projections is 0"):
        sliced_wasserstein(normal(5), normal(5), projections=0)
    for bandwidth in (0.0, -1.0, float("nan")):
        with pytest.raises(AttangentError, match="bandwidth is"):
            mmd(normal(5), normal(5), bandwidth=bandwidth)
    with pytest.raises(AttangentError, match="bandwidth is 0"):
        mmd(torch.zeros(3, 2), torch.zeros(3, 2))
    with pytest.raises(AttangentError, match="cannot fill 8 groups"):
        sample_quality(normal(5), normal(5))
    with pytest.raises(AttangentError, match="groups is 0, expected at least 2"):
        sample_quality(normal(5), normal(5), groups=0)
