"""The tests of `papers/p3/stage_runs.py`."""

import dataclasses

import torch

from attangent.audit import Verdict
from attangent.audit.papers.p3 import stage_runs
from tests.audit.papers.harness import ClaimSuite, checking, line
from tests.audit.papers.p3.courses import short_run

SMALLER = {
    "P3/corollary-1": {"second_steps": 20},
    "P3/two-stages": {"second_steps": 900, "second_rate": 8.0, "runs": 5},
}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/corollary-1": "violated",
        "P3/two-stages": "measured",
    }
    broken = {
        "P3/two-stages": {"second_steps": 5},
    }
    check = staticmethod(check)


def test_traces_as_printed_would_be_believed(monkeypatch):
    def as_printed(settings, seed):
        course, model = short_run(settings, seed)
        t1 = course.at(course.ends[0].step)
        W, V = torch.ones_like(course.trace_W), torch.ones_like(course.trace_V)
        W[t1:], V[t1:] = 1e4, 1e3
        V[-1] = 1e6
        return dataclasses.replace(course, trace_W=W, trace_V=V), model

    printed = iter((4.0, 3.0))  # log10 of the growth of Tr W, then of Tr V
    monkeypatch.setattr(stage_runs, "two_stages", as_printed)
    monkeypatch.setattr(
        stage_runs, "_printed_log10_growth", lambda *given: torch.tensor(next(printed), dtype=torch.float64)
    )
    assert check("P3/corollary-1").verdict is Verdict.HOLDS


def test_how_many_runs_hold_is_said():
    finding = check("P3/two-stages", runs=5, second_steps=5)
    assert line(finding, "runs of 5 in which K1 is learned at t_1").measured == 5
    assert line(finding, "runs of 5 in which K2 falls").measured == 0
