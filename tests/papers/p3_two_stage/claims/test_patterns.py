"""The tests of `patterns.py`."""

import pytest
import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import patterns
from tests.papers.harness import ClaimSuite, check, line, ours


class TestClaims(ClaimSuite):
    found = {
        "P3/lemma-6": "violated",
        "P3/lemma-7": "violated",
    }
    benign = {
        "P3/lemma-6": {"signal": 1e-9},
    }

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


class TestRepairs(ClaimSuite):
    found = {"P3/lemma-6-repaired": "holds", "P3/lemma-7-repaired": "holds"}


FALSIFIED = {
    "P3/lemma-6-repaired": ("flips_by_turning", lambda part, U, norm: part.labels[:, 0].abs().sum(-1)),
    "P3/lemma-7-repaired": ("changed_shares", lambda settings, d, seed: torch.linspace(0.2, 0.3, 9)),
}


@pytest.mark.parametrize("id", FALSIFIED)
def test_repairs_can_fail(monkeypatch, id):
    monkeypatch.setattr(patterns, *FALSIFIED[id])
    assert check(id).verdict.failed


def test_signs_that_follow_the_noise_would_be_believed(monkeypatch):
    monkeypatch.setattr(patterns, "flips_by_turning", lambda part, noise, norm: torch.tensor(part.L**0.6))
    assert check("P3/lemma-6").verdict is Verdict.HOLDS


def test_answers_that_do_not_average_out_are_found_out(monkeypatch):
    monkeypatch.setattr(patterns, "answer_change", lambda settings, L, seed: L**-0.1)
    assert check("P3/lemma-6").judgements["second display"].verdict is Verdict.VIOLATED


def test_few_changes_over_the_second_stage_would_be_believed(monkeypatch):
    def few(settings, d, seed):
        return torch.full((3,), patterns._share_bound(settings, d) / 2)

    monkeypatch.setattr(patterns, "changed_shares", few)
    monkeypatch.setattr(patterns, "whole_share", patterns._share_bound)
    assert check("P3/lemma-7").verdict is Verdict.HOLDS


def test_half_the_signs_change_over_the_second_stage():
    finding = check("P3/lemma-7")
    assert 0.3 < finding.numbers["share of signs changed at the largest d"] < 0.7
    assert line(finding, "exponent").measured > 0.5
