"""The tests of `concentration.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import concentration
from tests.papers.harness import ClaimSuite, checking, ours

check = checking({"P5/lemma-i.5": {"widths": [32, 64, 128, 256]}}, seed=1)


class TestClaims(ClaimSuite):
    found = {"P5/lemma-i.5": "violated", "P5/lemma-i.5-repaired": "holds"}
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


def test_outputs_that_do_not_move_with_the_width(monkeypatch):
    def steady(settings, seed):
        ones = torch.ones(4, dtype=torch.float64)
        return concentration.OutputChange(ones, 1e-4, ones)

    monkeypatch.setattr(concentration, "output_change", steady)
    assert check("P5/lemma-i.5").verdict is Verdict.HOLDS
    assert check("P5/lemma-i.5-repaired").verdict is Verdict.VIOLATED
