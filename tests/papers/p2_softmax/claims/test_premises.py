"""The tests of `papers/p2/premises.py`."""

import math

import pytest

from attangent.audit import Verdict
from attangent.papers.p2_softmax.claims import premises
from attangent.papers.p2_softmax.claims.premises import close_points, steps_to_fit
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/theorem-4.2-poly": "violated",
        "P2/theorem-g.2-logarithm": "violated",
    }
    benign = {
        "P2/theorem-4.2-poly": {"angles": [1.5, 1.52, 1.54, 1.56]},  # points that are far apart
    }


def test_the_logarithm_would_do_at_a_width_below_the_theorems(monkeypatch):
    right = premises.constants

    def narrow(p, settings):
        found = right(p, settings)
        width = math.log10(p.size / p.lambda_min) - math.log10(p.size) - 3
        return type("Narrow", (), {"log10_width": width, "B": found.B})

    monkeypatch.setattr(premises, "constants", narrow)
    finding = check("P2/theorem-g.2-logarithm", decades=[1e-3, 2e-3, 3e-3, 4e-3])
    assert finding.verdict is Verdict.HOLDS


def test_close_points_are_unit_vectors_and_their_kernel_nearly_singular():
    X = close_points(0.1)
    assert X.norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
    lam, steps = steps_to_fit(0.1, 1.0, 0.01)
    c = math.cos(0.1)
    assert lam == pytest.approx(math.e - c * math.exp(c))
    top = math.e + c * math.exp(c)
    left = 2 * (1 - lam / top) ** (2 * steps)
    assert left <= 0.01 < 2 * (1 - lam / top) ** (2 * (steps - 1))
