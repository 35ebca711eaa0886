"""Training data: who belongs to whom, and how it is cut."""

import pytest
import torch

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion import draw_data, noised_data
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, TARGET


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
