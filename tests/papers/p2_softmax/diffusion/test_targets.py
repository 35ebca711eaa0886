"""Targets: their scores against autograd, their posterior means against Bayes' rule, their draws."""

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
    draw_data,
    noised_data,
)
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, TARGET, TARGETS, circle_of_modes, tilted


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("process", [PROCESS, ForwardProcess(LinearSchedule(0.1, 2.0, 5.0))])
def test_exact_score_is_the_gradient_of_the_log_density(target, process):
    data = draw_data(target, process, 200, seed=5)
    x = data.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(target.log_density(process, data.t, x).sum(), x)
    score = ExactScore(process, target).score(data.t, data.x)
    assert ((score - gradient).norm(dim=1) / gradient.norm(dim=1)).max() < 1e-10


@given(t=st.floats(0.01, 6), x=st.floats(-3, 3))
def test_posterior_mean_in_one_dimension_by_quadrature(t, x):
    target = TARGETS["one dimension"]
    x0 = torch.linspace(-5, 5, 10_001, dtype=torch.float64)[:, None]
    time = torch.tensor(t, dtype=torch.float64)
    noise = (x - PROCESS.alpha(time) * x0[:, 0]).square() / PROCESS.variance(time)
    weights = torch.softmax(target.log_density(PROCESS, 0.0, x0) - 0.5 * noise, dim=0)
    found = target.posterior_mean(PROCESS, t, torch.tensor([[x]], dtype=torch.float64))
    assert found.item() == pytest.approx((weights @ x0[:, 0]).item(), abs=1e-9)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_density_of_draws(target):
    """E[E[x0 | xt]] = E[x0], and what is left of x0 is uncorrelated with the estimate."""
    rng = generator(0, "draws")
    x0 = target.draw(40_000, rng)
    xt = PROCESS.noised(x0, 0.3, rng)
    found = target.posterior_mean(PROCESS, 0.3, xt)
    torch.testing.assert_close(found.mean(dim=0), x0.mean(dim=0), rtol=0, atol=0.02)
    assert ((x0 - found) * found).sum(dim=1).mean().abs() < 0.02 * x0.square().sum(dim=1).mean()


def test_densities_integrate_to_one():
    side = torch.linspace(-5, 5, 400, dtype=torch.float64)
    x = torch.cartesian_prod(side, side)
    for target in (TARGET, TARGETS["rings"], tilted(2)):
        mass = target.log_density(PROCESS, 0.5, x).exp().sum() * (side[1] - side[0]) ** 2
        assert mass.item() == pytest.approx(1.0, abs=1e-6)


def test_a_mixture_at_a_later_time_is_its_marginal():
    later = tilted(2).at(PROCESS, 0.7)
    x = draw_data(tilted(2), PROCESS, 50, seed=0).x
    torch.testing.assert_close(later.log_density(PROCESS, 0.0, x), tilted(2).log_density(PROCESS, 0.7, x))


def test_spherical_components_are_full_ones():
    means = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    full = GaussianMixture.full(means, 0.04 * torch.eye(2).expand(2, 2, 2))
    x = torch.randn(20, 2, generator=generator(0, "x"), dtype=torch.float64)
    spherical = GaussianMixture.spherical(means, 0.2)
    torch.testing.assert_close(
        full.posterior_mean(PROCESS, 0.4, x), spherical.posterior_mean(PROCESS, 0.4, x), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianMixture.spherical([1.0, 2.0], 0.1), "means has shape"),
        (lambda: GaussianMixture.spherical([[1.0]], -0.1), "sd is"),
        (lambda: GaussianMixture.spherical([[1.0]], 0.1, [0.0]), "weights"),
        (lambda: GaussianMixture.full([[1.0, 0.0]], torch.eye(3)), "covariances has shape"),
        (lambda: GaussianMixture.full([[1.0, 0.0]], -torch.eye(2)[None]), "variances"),
        (lambda: Rings(()), "radii"),
        (lambda: Rings((0.5,), 0.0), "sd is"),
    ],
)
def test_impossible_targets_are_refused(make, message):
    with pytest.raises(AttangentError, match=message):
        make()


def test_rings_against_a_circle_of_many_modes():
    ring, modes = Rings((0.7,), 0.05), circle_of_modes(0.7, 0.05)
    data = draw_data(ring, PROCESS, 300, seed=1)
    for find in ("log_density", "posterior_mean"):
        found, reference = (getattr(target, find)(PROCESS, data.t, data.x) for target in (ring, modes))
        torch.testing.assert_close(found, reference, rtol=1e-9, atol=1e-9)


def test_centre_of_a_ring_is_no_trouble():
    mean = Rings().posterior_mean(PROCESS, 0.5, torch.zeros(1, 2))
    assert mean.abs().max() == 0


def test_labels_are_the_clean_points():
    points = TARGET.draw(50, generator(0, "own"))
    data = noised_data(points, PROCESS, copies=3, seed=1)
    assert len(data) == 150
    torch.testing.assert_close(data.y, points.repeat(3, 1))
    noise = data.x - PROCESS.alpha(data.t)[:, None] * data.y
    standard = noise / PROCESS.variance(data.t).sqrt()[:, None]
    assert standard.std().item() == pytest.approx(1.0, abs=0.15)


def test_the_same_seed_gives_the_same_data():
    first, second, other = (draw_data(TARGET, PROCESS, 10, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(first.x, second.x)
    assert not torch.equal(first.x, other.x)


def test_clean_labels_are_the_posterior_mean():
    clean = DATA.clean(TARGET, PROCESS)
    torch.testing.assert_close(clean.y, TARGET.posterior_mean(PROCESS, DATA.t, DATA.x))
    assert (clean.y - DATA.y).square().sum() > 1


def test_bad_data_are_refused():
    with pytest.raises(AttangentError, match="points has shape"):
        noised_data(torch.zeros(4), PROCESS)
    with pytest.raises(AttangentError, match="NaN"):
        noised_data(torch.full((4, 2), torch.nan), PROCESS)
    with pytest.raises(AttangentError, match="n is 0"):
        draw_data(TARGET, PROCESS, 0)
