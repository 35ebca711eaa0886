"""The tests of `papers/p3/easy_part_kept.py`."""

import dataclasses

import pytest

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p3_two_stage.claims import easy_part_kept
from attangent.papers.p3_two_stage.claims.easy_part_kept import second_stage
from tests.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-4": "violated",
    }


def test_the_move_does_not_depend_on_the_rate():
    settings = get("P3/theorem-4").quick | {"power": 1.5}
    one, other = (second_stage(settings | {"second_rate": rate}, 8, 0).moved for rate in (0.5, 0.1))
    assert one == pytest.approx(other, rel=0.02)


def test_moves_within_the_bound_would_be_believed(monkeypatch):
    right = easy_part_kept.second_stage

    def kept(settings, d, seed):
        found = right(settings | {"power": 1.0}, 8, seed)
        return dataclasses.replace(found, moved=3 / d, changed=2 / d, bound=1 / d)

    monkeypatch.setattr(easy_part_kept, "second_stage", kept)
    assert check("P3/theorem-4").verdict is Verdict.HOLDS


def test_nothing_moves_in_no_time():
    settings = get("P3/theorem-4").quick | {"power": 1.5, "decay_times": 0.0}
    assert second_stage(settings, 8, 0).moved == pytest.approx(0.0)


def test_a_short_prompt_keeps_the_bound_up_to_a_constant():
    assert line(check("P3/theorem-4"), "the exponent of (d.1) at L = d^1.5").kept
