"""The tests of `first_stage.py`."""

import dataclasses

import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import first_stage
from tests.papers.harness import ClaimSuite, checking, line

SMALLER = {
    "P3/theorem-2": {"dimensions": [8, 12, 16, 24], "runs": 2},
}
"""Settings that show the same in less time."""


check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-1": "holds",
        "P3/theorem-2": "violated",
    }
    broken = {
        "P3/theorem-1": {"ratio_power": 0.0},
    }
    check = staticmethod(check)


class TestRepairs(ClaimSuite):
    found = {"P3/theorem-2-repaired": "holds"}


def test_a_fixed_ratio_is_outside_the_hypotheses():
    assert check("P3/theorem-1", ratio_power=0.0).verdict is Verdict.NOT_REPRODUCED


def test_easy_weights_of_the_asked_order_would_be_believed(monkeypatch):
    def as_asked(settings, d, seed):
        return first_stage._EasyStage(3.0 * d, 1.0 * d, 4.0 * d, 1 / d)

    monkeypatch.setattr(first_stage, "_easy_stage_one", as_asked)
    assert check("P3/theorem-2").verdict is Verdict.HOLDS


def test_the_clash_of_theorem_2_with_proposition_4():
    clash = line(check("P3/theorem-2"), "K/lambda of Proposition 4")
    assert clash.measured < 0.1 * clash.bound


def test_hard_part_learned_below_the_bound_is_found_out(monkeypatch):
    """(a.2) fails where V is handed over already trained."""
    right = first_stage._hard_stage_one

    def learned(settings, scale, N, seed):
        end = right(settings, scale, N, seed)
        return dataclasses.replace(end, losses=end.losses._replace(K2=0.05 * torch.ones_like(end.losses.K2)))

    monkeypatch.setattr(first_stage, "_hard_stage_one", learned)
    finding = check("P3/theorem-1")
    assert finding.verdict is Verdict.VIOLATED
    assert not line(finding, "(a.2)").kept
    assert line(finding, "(a.1)").kept


def test_another_drift_is_found_out(monkeypatch):
    right = first_stage.easy_pull
    monkeypatch.setattr(first_stage, "easy_pull", lambda d: 1.3 * right(d))
    assert check("P3/theorem-2-repaired").verdict.failed
