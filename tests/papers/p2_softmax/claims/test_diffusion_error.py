"""The tests of `diffusion_error.py`."""

import math

import pytest

from attangent.audit import Verdict
from attangent.papers.p2_softmax.diffusion import ErrorTerms, KernelScore
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
        patch.setattr("attangent.papers.p2_softmax.claims.diffusion_error.reference_function", doubled)
        finding = check("P2/claim-g.1")
    assert finding.verdict is not Verdict.VIOLATED


def test_coupling_falls_fiftyfold_and_is_not_what_hurts():
    finding = check("P2/coupling-width", inits=3)
    assert finding.numbers["coupling falls by"] > 50
    assert all(conclusion.kept for conclusion in finding.conclusions)


def test_the_factor_one_is_found_out(monkeypatch):
    monkeypatch.setattr(ErrorTerms, "bound", property(lambda self: self.printed_bound))
    assert check("P2/claim-g.1-repaired").verdict is Verdict.VIOLATED
