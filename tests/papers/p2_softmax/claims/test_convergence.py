"""The tests of `convergence.py`."""

import math

import pytest

from attangent.audit import Verdict
from attangent.papers.p2_softmax.claims import convergence
from attangent.papers.p2_softmax.claims.convergence import close_points, steps_to_fit
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/theorem-4.2": "measured",
        "P2/corollary-4.3": "measured",
        "P2/learning-rate-limit": "holds",
        "P2/lemma-5.3": "measured",
    }
    broken = {
        "P2/theorem-4.2": {"rate": 2.1},
        "P2/corollary-4.3": {"rate": 2.1},
        "P2/learning-rate-limit": {"below": [2.05], "shown": [2.05]},
        "P2/lemma-5.3": {"rate": 2.1},
    }

    def examine(self, finding):
        assert finding.figures


class TestSteps(ClaimSuite):
    found = {"P2/theorem-4.2-poly": "violated", "P2/theorem-4.2-poly-repaired": "holds"}
    benign = {
        "P2/theorem-4.2-poly": {"angles": [1.5, 1.52, 1.54, 1.56]},  # points that are far apart
    }


def test_a_rate_of_one_percent_above_the_limit_is_found_out():
    finding = check("P2/learning-rate-limit", below=[2.02], shown=[2.02])
    assert finding.verdict is Verdict.VIOLATED


def test_too_few_steps_leave_the_theorem_open():
    assert check("P2/theorem-4.2", most_steps=5).verdict is Verdict.OPEN


def test_close_points_are_unit_vectors_and_their_kernel_nearly_singular():
    X = close_points(0.1)
    assert X.norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
    lam, steps = steps_to_fit(0.1, 1.0, 0.01)
    c = math.cos(0.1)
    assert lam == pytest.approx(math.e - c * math.exp(c))
    top = math.e + c * math.exp(c)
    left = 2 * (1 - lam / top) ** (2 * steps)
    assert left <= 0.01 < 2 * (1 - lam / top) ** (2 * (steps - 1))


def test_more_steps_than_stated_are_found_out(monkeypatch):
    right = convergence.steps_to_fit

    def slower(*given):
        lam, steps = right(*given)
        return lam, 1.1 * steps

    monkeypatch.setattr(convergence, "steps_to_fit", slower)
    assert check("P2/theorem-4.2-poly-repaired").verdict is Verdict.VIOLATED
