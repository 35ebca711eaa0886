"""Rings: against a circle of many modes, and at their centre."""

import torch

from attangent.papers.p2_softmax.diffusion import (
    Rings,
    draw_data,
)
from tests.papers.p2_softmax.diffusion.examples import PROCESS, circle_of_modes


def test_rings_against_a_circle_of_many_modes():
    ring, modes = Rings((0.7,), 0.05), circle_of_modes(0.7, 0.05)
    data = draw_data(ring, PROCESS, 300, seed=1)
    for find in ("log_density", "posterior_mean"):
        found, reference = (getattr(target, find)(PROCESS, data.t, data.x) for target in (ring, modes))
        torch.testing.assert_close(found, reference, rtol=1e-9, atol=1e-9)


def test_centre_of_a_ring_is_no_trouble():
    mean = Rings().posterior_mean(PROCESS, 0.5, torch.zeros(1, 2))
    assert mean.abs().max() == 0
