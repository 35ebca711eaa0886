"""The tests of `papers/p3/hard_part.py`."""

import pytest

from attangent.audit import Verdict
from attangent.audit.papers.p3 import hard_part
from attangent.stages.theory.floor import QLossBounds
from tests.audit.papers.harness import ClaimSuite, checking, line, ours
from tests.audit.papers.p3.courses import run_with_norms

SMALLER = {
    "P3/theorem-3": {"second_steps": 20, "lengths": [33], "starts": 4, "search_steps": 60},
}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-3": "violated",
    }
    check = staticmethod(check)


@pytest.mark.parametrize("id", ["P3/theorem-3"])
def test_the_corrected_form_holds(id):
    assert all(line.kept for line in ours(check(id)))


def test_unbalanced_prompts_make_the_hard_part_learnable(monkeypatch):
    monkeypatch.setattr(hard_part, "two_stages", run_with_norms(1.0, 9.0))
    changes = {"lengths": [1025], "search_steps": 150, "starts": 8}
    assert check("P3/theorem-3", p=0.6, **changes).verdict is Verdict.HOLDS
    assert check("P3/theorem-3", p=0.5, **changes).verdict is Verdict.VIOLATED


def test_a_floor_set_too_high_is_found_out(monkeypatch):
    monkeypatch.setattr(hard_part, "q_loss_bounds", lambda p, L: QLossBounds(0.4, 0.5))
    assert not line(check("P3/theorem-3", search_steps=150), "least (K2 - floor)").kept


def test_weights_that_do_not_grow_violate_c1(monkeypatch):
    monkeypatch.setattr(hard_part, "two_stages", run_with_norms(9.0, 1.0))
    assert not line(check("P3/theorem-3"), "(c.1)").kept
