"""The tests of `papers/p1/kernel_scaling.py`."""

import pytest
import torch

from attangent.audit import registry
from attangent.audit.papers.p1.kernel_scaling import line, measure
from attangent.audit.papers.p1.prefix_regression import ordinary_regression
from tests.audit.papers.harness import ClaimSuite

EASY = {"n": 3, "d": 3, "sigma": 1.0, "candidates": 1}


class TestClaims(ClaimSuite):
    found = {
        "P1/proposition-3.3": "violated",
    }
    benign = {
        "P1/proposition-3.3": {"hard": {**EASY, "m": 256, "steps": 200}},
    }

    def examine(self, finding):
        assert finding.figures


def test_a_line_is_fitted_through_the_tail():
    slope, fit = line(torch.arange(5).double(), 3 - 2 * torch.arange(5).double())
    assert slope == pytest.approx(-2)
    assert fit == pytest.approx(1)


def test_compute_counts_parameters_points_and_steps():
    settings = registry.get("P1/proposition-3.3").quick | {"m": 64, "steps": 50}
    law = measure(settings, ordinary_regression(settings, 0))
    assert law.compute[1].item() == 64 * 3 * 3
    assert law.compute_to(2.0) == 0
    assert law.compute_to(1e-30) == float("inf")
