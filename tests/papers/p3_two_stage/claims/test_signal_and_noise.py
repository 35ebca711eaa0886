"""The tests of `signal_and_noise.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import signal_and_noise
from tests.papers.harness import ClaimSuite, checking, line

check = checking({"P3/signal-dominates-noise": {"dimensions": [8, 12, 16, 24]}})


class TestClaims(ClaimSuite):
    found = {
        "P3/signal-dominates-noise": "violated",
        "P3/signal-dominates-noise-repaired": "holds",
        "P3/noise-variance": "violated",
    }
    benign = {"P3/noise-variance": {"steps": 1}}
    check = staticmethod(check)


def test_a_strong_signal_would_be_believed(monkeypatch):
    monkeypatch.setattr(signal_and_noise, "signal_over_noise", lambda settings, d, seed: (2.0, 3.0))
    assert check("P3/signal-dominates-noise").verdict is Verdict.HOLDS


def test_a_weak_signal_breaks_the_repaired_form(monkeypatch):
    monkeypatch.setattr(signal_and_noise, "signal_over_noise", lambda settings, d, seed: (0.5, 0.5))
    assert check("P3/signal-dominates-noise-repaired").verdict.failed


class TestKeptSigns(ClaimSuite):
    found = {"P3/lemma-7": "violated", "P3/lemma-7-repaired": "holds"}


def test_the_repair_can_fail(monkeypatch):
    monkeypatch.setattr(
        signal_and_noise, "changed_shares", lambda settings, d, seed: torch.linspace(0.2, 0.3, 9)
    )
    assert check("P3/lemma-7-repaired").verdict.failed


def test_few_changes_over_the_second_stage_would_be_believed(monkeypatch):
    def few(settings, d, seed):
        return torch.full((3,), signal_and_noise._share_bound(settings, d) / 2)

    monkeypatch.setattr(signal_and_noise, "changed_shares", few)
    monkeypatch.setattr(signal_and_noise, "whole_share", signal_and_noise._share_bound)
    assert check("P3/lemma-7").verdict is Verdict.HOLDS


def test_half_the_signs_change_over_the_second_stage():
    finding = check("P3/lemma-7")
    assert 0.3 < finding.numbers["share of signs changed at the largest d"] < 0.7
    assert line(finding, "exponent").measured > 0.5
