"""The tests of `papers/p3/repairs_training.py`."""

import dataclasses

import pytest

from attangent.papers.p3_two_stage.claims import repairs_training
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-2-repaired": "holds",
        "P3/theorem-3-repaired": "holds",
        "P3/theorem-4-repaired": "holds",
        "P3/corollary-1-repaired": "holds",
    }
    broken = {
        "P3/theorem-3-repaired": {"unbalanced": 0.5},
        "P3/theorem-4-repaired": {"decay_times": 0.5},
    }


@pytest.mark.parametrize("id", ["P3/theorem-2-repaired"])
def test_another_drift_is_found_out(monkeypatch, id):
    right = repairs_training.easy_pull
    monkeypatch.setattr(repairs_training, "easy_pull", lambda d: 1.3 * right(d))
    assert check(id).verdict.failed


def test_gradients_that_are_said_to_be_smaller_are_found_out(monkeypatch):
    right = repairs_training.FactorRun

    class Understated(right):
        def __init__(self, settings, seed):
            super().__init__(settings, seed)
            self.parts = [dataclasses.replace(part, steepest=0.01 * part.steepest) for part in self.parts]

    monkeypatch.setattr(repairs_training, "FactorRun", Understated)
    assert check("P3/corollary-1-repaired").verdict.failed
