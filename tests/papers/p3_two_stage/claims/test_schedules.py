"""The tests of `papers/p3/schedules.py`."""

import math

import pytest

from attangent.papers.p3_two_stage.claims import schedules
from tests.papers.harness import check
from tests.papers.p3_two_stage.claims.courses import with_losses


@pytest.mark.parametrize(("gap", "verdict"), [(0.2, "holds"), (-0.2, "violated")])
def test_constant_rate_counts_runs(monkeypatch, gap, verdict):
    def made_up(settings, seed, stages=None):
        return with_losses(settings, seed, K1=0.1, K2=0.4 if stages is None else 0.4 + gap)

    monkeypatch.setattr(schedules, "two_stages", made_up)
    assert check("P3/ablation-constant-rate").verdict == verdict


@pytest.mark.parametrize(("K2", "verdict"), [(0.5, "holds"), (0.69, "violated")])
def test_small_rate_counts_runs(monkeypatch, K2, verdict):
    def made_up(settings, seed, stages=None):
        return with_losses(settings, seed, K1=0.1, K2=0.69 if stages is None else K2)

    monkeypatch.setattr(schedules, "two_stages", made_up)
    assert check("P3/ablation-small-rate").verdict == verdict


@pytest.mark.parametrize("id", ["P3/ablation-constant-rate", "P3/ablation-small-rate"])
def test_ablations_run(id):
    finding = check(id, runs=2, second_steps=20)
    assert all(math.isfinite(value) for value in finding.numbers.values())
    assert len(finding.figures[0].series) == 4
