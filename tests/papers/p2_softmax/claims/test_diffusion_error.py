"""The tests of `diffusion_error.py`."""

import math

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.papers.p2_softmax.claims.diffusion_error import DiffusionSetting
from attangent.papers.p2_softmax.diffusion import (
    ErrorTerms,
    ExactScore,
    KernelScore,
    relative_error,
)
from tests.papers.harness import ClaimSuite, checking

SMALLER = {
    "P2/claim-g.1": {"n": 128, "m": 64, "steps": 60, "reference": 128},
    "P2/coupling-width": {"inits": 1},
}
"""Settings that show the same in less time."""


check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P2/claim-g.1": "violated",
        "P2/coupling-width": "holds",
    }
    broken = {
        "P2/coupling-width": {"rate": 2.5},  # an unstable rate: the kernel predictor blows up
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert finding.figures
        assert all(math.isfinite(value) for value in finding.numbers.values())


class TestRepairs(ClaimSuite):
    found = {"P2/claim-g.1-repaired": "holds"}


def test_claim_g1_fails_at_step_zero_and_holds_with_the_factor_four():
    finding = check("P2/claim-g.1")
    printed, corrected = finding.conclusions
    assert printed.first_violation == 0
    assert corrected.kept


def test_claim_g1_is_not_violated_by_a_function_beyond_the_target():
    """F_H = 2 F*: then <F_H, F* - F_H> is negative, and the printed sum is large enough."""

    def doubled(problem, model, settings):
        clean = problem.data.clean(problem.target, problem.process)
        return KernelScore.like(model, 1.0, 10**6).fit(clean.with_labels(2 * clean.y))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiffusionSetting, "reference", doubled)
        finding = check("P2/claim-g.1")
    assert finding.verdict is not Verdict.VIOLATED


def test_coupling_falls_fiftyfold_and_is_not_what_hurts():
    finding = check("P2/coupling-width", inits=3)
    assert finding.numbers["coupling falls by"] > 50
    assert all(conclusion.kept for conclusion in finding.conclusions)


def test_the_factor_one_is_found_out(monkeypatch):
    monkeypatch.setattr(ErrorTerms, "bound", property(lambda self: self.printed_bound))
    assert check("P2/claim-g.1-repaired").verdict is Verdict.VIOLATED


def test_draws_of_a_problem_are_not_shared():
    settings = registry.get("P2/theorem-6.5").quick | {"n": 50, "test": 50, "validation": 50}
    problem = DiffusionSetting.draw(settings, 0)
    parts = [problem.data, problem.validation, problem.test, problem.fresh(50, purpose=10)]
    parts.append(DiffusionSetting.draw(settings, 1).data)
    for i, one in enumerate(parts):
        for other in parts[:i]:
            assert not torch.equal(one.x, other.x)


def test_exact_score_leaves_no_error_in_the_shared_problem():
    problem = DiffusionSetting.draw(registry.get("P2/claim-g.1").quick, 0)
    assert relative_error(ExactScore(problem.process, problem.target), problem.target, problem.test) == 0
