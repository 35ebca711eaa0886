"""The tests of `patterns.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import patterns
from tests.papers.harness import ClaimSuite, check, ours


class TestClaims(ClaimSuite):
    found = {
        "P3/lemma-6": "violated",
    }
    benign = {
        "P3/lemma-6": {"signal": 1e-9},
    }

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


class TestRepairs(ClaimSuite):
    found = {"P3/lemma-6-repaired": "holds"}


def test_the_repair_can_fail(monkeypatch):
    monkeypatch.setattr(patterns, "flips_by_turning", lambda part, U, norm: part.labels[:, 0].abs().sum(-1))
    assert check("P3/lemma-6-repaired").verdict.failed


def test_signs_that_follow_the_noise_would_be_believed(monkeypatch):
    monkeypatch.setattr(patterns, "flips_by_turning", lambda part, noise, norm: torch.tensor(part.L**0.6))
    assert check("P3/lemma-6").verdict is Verdict.HOLDS


def test_answers_that_do_not_average_out_are_found_out(monkeypatch):
    monkeypatch.setattr(patterns, "answer_change", lambda settings, L, seed: L**-0.1)
    assert check("P3/lemma-6").judgements["second display"].verdict is Verdict.VIOLATED
