"""The tests of `papers/p4/induction.py`."""

import dataclasses
import math

from attangent.audit import Verdict
from attangent.papers.p4_in_context.claims import induction
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/equation-43": "holds",
        "P4/heads-and-speed": "violated",
        "P4/heads-and-speed-repaired": "holds",
        "P4/footnote-1": "violated",
        "P4/footnote-1-repaired": "holds",
    }
    broken = {
        "P4/footnote-1-repaired": {"rate_factor": 1e5, "steps": 2},
    }
    benign = {
        "P4/footnote-1": {"scales": [1.0, 2.0]},
    }


def test_a_larger_zeta_is_found_out(monkeypatch):
    right = induction.model

    class Boastful:
        def __init__(self, start):
            self.start = start

        def __getattr__(self, name):
            return getattr(self.start, name)

        def certificate(self):
            found = self.start.certificate()
            return dataclasses.replace(found, zeta=100 * found.zeta, log10_alpha=found.log10_alpha - 4)

    monkeypatch.setattr(induction, "model", lambda *given: Boastful(right(*given)))
    parts = check("P4/equation-43", steps=60).judgements
    assert [parts[name].verdict for name in ("43a", "43b", "49")] == [Verdict.VIOLATED] * 3


def test_a_guarantee_that_falls_with_heads_would_be_believed(monkeypatch):
    monkeypatch.setattr(
        induction, "guaranteed_fall", lambda settings, seed: -4 - 0.1 * math.log2(settings.heads / 8)
    )
    assert check("P4/heads-and-speed").judgements["H"].verdict is Verdict.HOLDS
    monkeypatch.setattr(induction, "guaranteed_fall", lambda settings, seed: 0.01 * settings.K - 4.7)
    assert check("P4/heads-and-speed", dictionary_sizes=[50, 40, 30, 20]).judgements["K"].verdict.failed


def test_fewer_eigenvalues_per_head_are_found_out(monkeypatch):
    right = induction.zeta
    monkeypatch.setattr(induction, "zeta", lambda given, S: right(given, S) / len(S) ** 2)
    assert check("P4/heads-and-speed-repaired").verdict is Verdict.VIOLATED
