"""The tests of `approximation.py`."""

import math
from dataclasses import replace

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.papers.p2_softmax.claims import approximation
from attangent.papers.p2_softmax.claims.approximation import Line
from attangent.papers.p2_softmax.diffusion import KernelScore
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/theorem-g.4": "violated",
        "P2/theorem-g.5": "measured",
    }

    def examine(self, finding):
        assert finding.figures


class TestRepairs(ClaimSuite):
    found = {"P2/theorem-g.4-repaired": "holds"}


@pytest.fixture(scope="module")
def line():
    settings = registry.get("P2/theorem-g.4").quick
    return Line.draw(settings | {"points": 400}, 0)


def test_a_power_of_the_norm_is_accepted(monkeypatch):
    monkeypatch.setattr(Line, "best", lambda self, norms, degree, sigma: [R**-2 for R in norms])
    assert check("P2/theorem-g.4").verdict is Verdict.HOLDS


def test_features_give_the_kernel(line):
    Z = line.inputs[:20]
    g = Z @ Z.T
    features = Line(Z, line.values[:20], 0.0).features(25, 1.0)
    torch.testing.assert_close(features @ features.T, g * g.exp())


def test_the_least_error_is_that_of_kernel_ridge_regression(line):
    """At a norm that a ridge attains, against the dual solution by the kernel itself."""
    g = line.inputs @ line.inputs.T
    K, n, ridge = g * g.exp(), len(line.values), 1e-4
    dual = torch.linalg.solve(K + n * ridge * torch.eye(n, dtype=K.dtype), line.values)
    norm, error = (dual @ K @ dual).item(), (K @ dual - line.values).square().mean().item()
    assert line.best([norm], 20, 1.0)[0] == pytest.approx(error, rel=1e-3)


def test_more_norm_never_costs(line):
    errors = line.best([1.0, 1e2, 1e4, 1e6], 12, 1.0)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < line.values.square().mean().item()
    assert math.isfinite(line.slope)


def test_a_mismatch_that_does_not_fall_is_found_out(monkeypatch):
    right = KernelScore.posterior_mean

    def constant(self, t, x):
        return right(self, t, x) * 0 + 1

    monkeypatch.setattr(approximation, "log10_terms", lambda *given: (-3.0, 3.0, 3.0))
    monkeypatch.setattr(
        approximation, "KernelScore", type("Fixed", (KernelScore,), {"posterior_mean": constant})
    )
    assert check("P2/theorem-g.5").verdict is Verdict.VIOLATED


def test_a_function_with_a_jump_is_not_approximated_so_fast(monkeypatch):
    right = Line.draw.__func__

    def jump(cls, settings, seed):
        line = right(cls, settings, seed)
        return replace(line, values=line.values.sign())

    monkeypatch.setattr(Line, "draw", classmethod(jump))
    assert check("P2/theorem-g.4-repaired").verdict is Verdict.VIOLATED
