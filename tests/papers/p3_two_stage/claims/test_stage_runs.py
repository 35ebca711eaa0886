"""The tests of `papers/p3/stage_runs.py`."""

from attangent.papers.p3_two_stage.claims import stage_runs
from tests.papers.harness import ClaimSuite, checking, line
from tests.papers.p3_two_stage.claims.courses import with_losses

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
