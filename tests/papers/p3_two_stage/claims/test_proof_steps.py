"""The tests of `proof_steps.py`."""

import pytest
import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import proof_steps
from tests.papers.harness import ClaimSuite, checking, line

SMALLER = {
    "P3/activation-count": {"dimensions": [8, 12, 16, 24]},
    "P3/equation-23": {"dimensions": [8, 12, 16, 24], "prompts": 20},
}
"""Settings that show the same in less time."""


check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/activation-count": "violated",
        "P3/equation-23": "violated",
        "P3/definition-5": "violated",
    }
    check = staticmethod(check)


class TestRepairs(ClaimSuite):
    found = {
        "P3/activation-count-repaired": "holds",
        "P3/equation-23-repaired": "holds",
        "P3/definition-5-repaired": "holds",
    }


def test_few_active_tokens_would_be_believed(monkeypatch):
    few = torch.zeros(2, 3, dtype=torch.float64)
    monkeypatch.setattr(proof_steps, "active_counts", lambda settings, d, seed: few + d**-2.5)
    assert check("P3/activation-count").verdict is Verdict.HOLDS


def test_an_answer_that_vanishes_would_be_believed(monkeypatch):
    monkeypatch.setattr(proof_steps, "optimum", lambda settings, d, seed: (1 / d, 1 / d, 1 / d))
    monkeypatch.setattr(proof_steps, "printed_answer", lambda settings, d, seed: 1 / d)
    assert check("P3/equation-23").verdict is Verdict.HOLDS


def test_the_loss_at_the_optimum_is_small_all_the_same():
    assert check("P3/equation-23").judgements["loss"].verdict is Verdict.HOLDS


def test_counts_that_concentrate_would_be_believed(monkeypatch):
    def steady(settings, L, seed):
        return torch.full((100,), settings.r / (2 * torch.pi * settings.u), dtype=torch.float64)

    monkeypatch.setattr(proof_steps, "telling_shares", steady)
    finding = check("P3/definition-5")
    assert finding.judgements["mean"].verdict is Verdict.HOLDS
    assert line(finding, "P(outside)").measured < 0.25


FALSIFIED = {
    "P3/activation-count-repaired": (
        "active_counts",
        lambda settings, d, seed: 0.9 + 0 * _counts(settings, d),
    ),
    "P3/equation-23-repaired": ("optimum", lambda settings, d, seed: (0.1, 0.7, 0.2)),
    "P3/definition-5-repaired": ("telling_shares", lambda settings, L, seed: _counts(settings, 8).flatten()),
}


def _counts(settings, d):
    return torch.linspace(0.2, 0.3, 12, dtype=torch.float64).reshape(2, 6)


def test_another_margin_is_found_out(monkeypatch):
    monkeypatch.setattr(proof_steps, "MARGIN", 1.0)
    assert check("P3/equation-23-repaired", d=16).verdict.failed


@pytest.mark.parametrize("id", FALSIFIED)
def test_it_can_fail(monkeypatch, id):
    monkeypatch.setattr(proof_steps, *FALSIFIED[id])
    assert check(id).verdict.failed
