"""The tests of `papers/p3/elementary.py`."""

import dataclasses

import pytest
import torch

from attangent.audit import Verdict
from attangent.audit.papers.p3 import elementary
from attangent.audit.papers.p3.two_stage_setting import Assumption1
from tests.audit.papers.harness import ClaimSuite, checking, line, ours

SMALLER = {
    "P3/theorem-2": {"dimensions": [8, 16], "runs": 3},
}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-1": "violated",
        "P3/theorem-2": "violated",
    }
    benign = {
        "P3/theorem-1": {"r": 1e-3},
    }
    check = staticmethod(check)


@pytest.mark.parametrize("id", ["P3/theorem-1"])
def test_the_corrected_form_holds(id):
    assert all(line.kept for line in ours(check(id)))


def test_easy_weights_of_the_asked_order_would_be_believed(monkeypatch):
    def as_asked(settings, d, seed):
        asked = Assumption1.of(settings, d).d * 2.0
        return elementary._EasyStage(3 * asked, asked, 4 * asked, 0.1, 0.2)

    monkeypatch.setattr(elementary, "_easy_stage_one", as_asked)
    finding = check("P3/theorem-2")
    assert finding.verdict is Verdict.HOLDS
    assert all(line.kept for line in ours(finding))


def test_the_clash_of_theorem_2_with_proposition_4():
    clash = line(check("P3/theorem-2"), "K/lambda of Proposition 4")
    assert clash.measured < 0.1 * clash.bound


def test_hard_part_learned_below_the_bound_is_found_out(monkeypatch):
    """(a.2) fails where V is handed over already trained."""
    right = elementary._hard_stage_one

    def learned(settings, scale, N, seed):
        end = right(settings, scale, N, seed)
        return dataclasses.replace(end, losses=end.losses._replace(K2=0.05 * torch.ones_like(end.losses.K2)))

    monkeypatch.setattr(elementary, "_hard_stage_one", learned)
    finding = check("P3/theorem-1", r=1e-3)
    assert finding.verdict is Verdict.VIOLATED
    assert not line(finding, "(a.2)").kept
