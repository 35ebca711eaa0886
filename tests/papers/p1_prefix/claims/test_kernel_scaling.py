import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.kernels import Tangent
from attangent.papers.p1_prefix.claims.kernel_scaling import line, measure
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/proposition-3.3": "violated",
    }

    def examine(self, finding):
        assert finding.figures


def test_the_law_would_hold_with_the_exact_kernel(monkeypatch):
    monkeypatch.setattr(Tangent, "without_direct", lambda self: self)
    assert check("P1/proposition-3.3").verdict is Verdict.MEASURED


def test_a_line_is_fitted_through_the_tail():
    slope, fit = line(torch.arange(5).double(), 3 - 2 * torch.arange(5).double())
    assert slope == pytest.approx(-2)
    assert fit == pytest.approx(1)


def test_compute_counts_parameters_points_and_steps():
    quick = registry.get("P1/proposition-3.3").quick
    settings = quick | quick.law | {"m": 64, "steps": 50}
    law = measure(settings, PrefixRegression.draw(settings, 0))
    assert law.compute[1].item() == 64 * 3 * 3
    assert law.compute_to(2.0) == 0
    assert law.compute_to(1e-30) == float("inf")
