"""The tests of `facts.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import facts
from tests.papers.harness import ClaimSuite, checking, ours


class TestClaims(ClaimSuite):
    found = {
        "P5/fact-b.3": "violated",
        "P5/fact-b.4": "violated",
        "P5/fact-b.7": "violated",
        "P5/fact-b.9": "holds",
    }
    broken = {"P5/fact-b.9": {"C": 0.5}}
    benign = {
        "P5/fact-b.3": {"correlation": 0.0},
        "P5/fact-b.4": {"d": 1},
        "P5/fact-b.7": {"symmetric": True},
    }


check = checking({"P5/lemma-i.5": {"widths": [32, 64, 128, 256]}}, seed=1)


class TestConcentration(ClaimSuite):
    found = {"P5/lemma-i.5": "violated", "P5/lemma-i.5-repaired": "holds"}
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


def test_outputs_that_do_not_move_with_the_width(monkeypatch):
    def steady(settings, seed):
        ones = torch.ones(4, dtype=torch.float64)
        return facts.OutputChange(ones, 1e-4, ones)

    monkeypatch.setattr(facts, "output_change", steady)
    assert check("P5/lemma-i.5").verdict is Verdict.HOLDS
    assert check("P5/lemma-i.5-repaired").verdict is Verdict.VIOLATED
