"""The tests of `kept_signs.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import kept_signs
from tests.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {"P3/lemma-7": "violated", "P3/lemma-7-repaired": "holds"}


def test_the_repair_can_fail(monkeypatch):
    monkeypatch.setattr(kept_signs, "changed_shares", lambda settings, d, seed: torch.linspace(0.2, 0.3, 9))
    assert check("P3/lemma-7-repaired").verdict.failed


def test_few_changes_over_the_second_stage_would_be_believed(monkeypatch):
    def few(settings, d, seed):
        return torch.full((3,), kept_signs._share_bound(settings, d) / 2)

    monkeypatch.setattr(kept_signs, "changed_shares", few)
    monkeypatch.setattr(kept_signs, "whole_share", kept_signs._share_bound)
    assert check("P3/lemma-7").verdict is Verdict.HOLDS


def test_half_the_signs_change_over_the_second_stage():
    finding = check("P3/lemma-7")
    assert 0.3 < finding.numbers["share of signs changed at the largest d"] < 0.7
    assert line(finding, "exponent").measured > 0.5
