"""The tests of `signal_and_noise.py`."""

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import signal_and_noise
from tests.papers.harness import ClaimSuite, checking

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
