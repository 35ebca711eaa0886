"""The tests of `stage_runs.py`."""

import math

import pytest

from attangent.papers.p3_two_stage.claims import stage_runs
from attangent.papers.p3_two_stage.claims.stage_runs import STAGES
from tests.papers.harness import ClaimSuite, checking, line
from tests.papers.p3_two_stage.claims.courses import with_losses


def test_the_stage_setting_lasts_one_decay_time():
    assert STAGES["first_steps"] * STAGES["first_rate"] * STAGES["weight_decay"] == pytest.approx(1.0)


SMALLER = {"P3/two-stages": {"second_steps": 600, "second_rate": 8.0, "runs": 4}}
"""Settings that show the same in less time."""


check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/two-stages": "measured",
    }
    check = staticmethod(check)


def test_a_hard_part_that_is_not_learned_is_found_out(monkeypatch):
    monkeypatch.setattr(stage_runs, "two_stages", lambda s, seed: with_losses(s, seed, K1=0.1, K2=0.69))
    assert check("P3/two-stages").verdict == "not reproduced"


def test_how_many_runs_hold_is_said_and_does_not_decide():
    finding = check("P3/two-stages", second_steps=5)
    learned = line(finding, "runs of 4 in which K1 is learned at t_1")
    assert learned.measured == 4
    assert not learned.decides
    assert line(finding, "runs of 4 in which K2 falls").measured == 0


@pytest.mark.parametrize(("gap", "verdict"), [(0.2, "holds"), (-0.2, "violated")])
def test_constant_rate_counts_runs(monkeypatch, gap, verdict):
    def made_up(settings, seed, stages=None):
        return with_losses(settings, seed, K1=0.1, K2=0.4 if stages is None else 0.4 + gap)

    monkeypatch.setattr(stage_runs, "two_stages", made_up)
    assert check("P3/ablation-constant-rate").verdict == verdict


@pytest.mark.parametrize(("K2", "verdict"), [(0.5, "holds"), (0.69, "violated")])
def test_small_rate_counts_runs(monkeypatch, K2, verdict):
    def made_up(settings, seed, stages=None):
        return with_losses(settings, seed, K1=0.1, K2=0.69 if stages is None else K2)

    monkeypatch.setattr(stage_runs, "two_stages", made_up)
    assert check("P3/ablation-small-rate").verdict == verdict


@pytest.mark.parametrize("id", ["P3/ablation-constant-rate", "P3/ablation-small-rate"])
def test_ablations_run(id):
    finding = check(id, runs=2, second_steps=20)
    assert all(math.isfinite(value) for value in finding.numbers.values())
    assert len(finding.figures[0].series) == 4
