"""The tests of `papers/p4/convergence.py`."""

import decimal
import math

import pytest
import torch

from attangent.audit import Verdict
from attangent.icl import RidgeLimit
from attangent.papers.p4_in_context.claims import convergence
from attangent.papers.p4_in_context.one_layer.training import TrainingRun
from tests.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {
        "P4/proposition-1": "holds",
        "P4/theorem-1": "holds",
        "P4/theorem-2": "holds",
    }
    broken = {
        "P4/proposition-1": {"repeat_token": True},
        "P4/theorem-1": {"rate_factor": 300.0, "steps": 200},
        "P4/theorem-2": {"steps_factor": 1e-3},
    }


def test_too_few_heads_have_no_full_rank():
    finding = check("P4/proposition-1", heads=7)
    assert finding.verdict is Verdict.NOT_REPRODUCED
    assert line(finding, "least rank").measured == 7


def test_gaussian_tokens_have_full_rank_on_paper_only():
    finding = check("P4/proposition-1")
    assert line(finding, "zeta_0 in floating point, unit").kept
    assert not line(finding, "zeta_0 in floating point, Gaussian").kept


def test_answers_that_are_not_ridge_are_found_out(monkeypatch):
    right = RidgeLimit.predict
    monkeypatch.setattr(RidgeLimit, "predict", lambda self, labels: 0.5 * right(self, labels))
    assert check("P4/theorem-2", steps_factor=0.1).verdict.failed


def test_too_few_steps_leave_theorem_2_open():
    assert check("P4/theorem-2", most_steps=5).verdict is Verdict.OPEN


def test_rank_by_exact_elimination():
    rows = [[1, 2, 3], [2, 4, 6], [0, 1, 1]]
    table = [[decimal.Decimal(x) for x in row] for row in rows]
    assert convergence._rank(table, negligible=decimal.Decimal("1e-20")) == 2
    wide = [[decimal.Decimal(x) for x in row] for row in [[1, 2, 3], [2, 4, 7]]]
    assert convergence._rank(wide, negligible=decimal.Decimal("1e-20")) == 2
    tiny = [[decimal.Decimal(1), decimal.Decimal(1)], [decimal.Decimal(1), 1 + decimal.Decimal("1e-25")]]
    assert convergence._rank(tiny, negligible=decimal.Decimal("1e-27")) == 2


def test_a_bound_that_is_passed_names_its_first_step():
    gaps = torch.tensor([1.0, 0.5, 0.6, 0.1], dtype=torch.float64)
    run = TrainingRun("gd", torch.arange(4), gaps, "steps")
    broken = convergence._kept(run, 0.4)
    assert broken.first_violation == 2
    assert broken.measured == pytest.approx(0.6 / 0.36)
    diverged = TrainingRun("gd", torch.arange(2), torch.tensor([1.0, math.inf]), "diverged")
    assert convergence._kept(diverged, 0.1).measured == math.inf


def test_a_gap_at_round_off_breaks_no_bound_that_is_far_below_it():
    gaps = torch.tensor([1.0, 1e-9, 1e-16, 1e-16, 1e-16], dtype=torch.float64)
    run = TrainingRun("gd", torch.arange(5), gaps, "steps")
    kept = convergence._kept(run, 1 - 1e-7)
    assert kept.first_violation is None
    assert kept.measured == pytest.approx(1e-2)
