"""The tests of `second_stage.py`."""

import dataclasses

import pytest

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p3_two_stage.claims import second_stage
from attangent.papers.p3_two_stage.claims.second_stage import easy_stage_two
from tests.papers.harness import ClaimSuite, checking, line, ours

SMALLER = {"P3/theorem-3": {"dimensions": [16, 64, 256, 1024], "N": 60, "search_prompts": 300, "starts": 1}}
"""Settings that show the same in less time."""


check = checking(SMALLER)


class TestHardPart(ClaimSuite):
    found = {
        "P3/theorem-3": "violated",
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


class TestRepairs(ClaimSuite):
    found = {"P3/theorem-3-repaired": "holds", "P3/theorem-4-repaired": "holds"}
    broken = {
        "P3/theorem-3-repaired": {"unbalanced": 0.5},
        "P3/theorem-4-repaired": {"decay_times": 0.5},
    }


def test_weights_and_losses_as_asked_would_be_believed(monkeypatch):
    right = second_stage._hard_stage_two

    def as_asked(settings, d, seed):
        found = right(settings, 16, seed)
        return dataclasses.replace(found, norm=d, required=d, loss=1 / d, epsilon=0.5)

    monkeypatch.setattr(second_stage, "_hard_stage_two", as_asked)
    monkeypatch.setattr(second_stage, "_least_loss", lambda settings, d, seed: 1 / d)
    assert check("P3/theorem-3", second_rate=0.5).judgements["c.1"].verdict is Verdict.HOLDS
    assert check("P3/theorem-3", second_rate=0.5).verdict is Verdict.HOLDS


def test_unbalanced_prompts_make_the_hard_part_learnable():
    settings = get("P3/theorem-3").quick | {"search_prompts": 300, "starts": 1}
    least = [second_stage._least_loss(settings | {"p": p}, 64, 0) for p in (0.5, 0.6)]
    assert least[0] > 0.3
    assert least[1] < 0.01


def test_decay_keeps_the_signal_below_what_is_asked():
    found = second_stage._hard_stage_two(get("P3/theorem-3").quick, 256, 0)
    assert found.norm <= found.most < 0.1 * found.required


def test_the_loss_after_training_is_that_of_knowing_nothing():
    finding = check("P3/theorem-3")
    assert finding.numbers["K2 after training at the largest d"] == pytest.approx(0.6931, abs=0.01)
    assert line(finding, "(c.2) the same for the smallest K2").measured == pytest.approx(0.0, abs=0.1)


class TestEasyPart(ClaimSuite):
    found = {
        "P3/theorem-4": "violated",
    }


def test_the_move_does_not_depend_on_the_rate():
    settings = get("P3/theorem-4").quick | {"power": 1.5}
    one, other = (easy_stage_two(settings | {"second_rate": rate}, 8, 0).moved for rate in (0.5, 0.1))
    assert one == pytest.approx(other, rel=0.02)


def test_moves_within_the_bound_would_be_believed(monkeypatch):
    right = second_stage.easy_stage_two

    def kept(settings, d, seed):
        found = right(settings | {"power": 1.0}, 8, seed)
        return dataclasses.replace(found, moved=3 / d, changed=2 / d, bound=1 / d)

    monkeypatch.setattr(second_stage, "easy_stage_two", kept)
    assert check("P3/theorem-4").verdict is Verdict.HOLDS


def test_nothing_moves_in_no_time():
    settings = get("P3/theorem-4").quick | {"power": 1.5, "decay_times": 0.0}
    assert easy_stage_two(settings, 8, 0).moved == pytest.approx(0.0)


def test_a_short_prompt_keeps_the_bound_up_to_a_constant():
    assert line(check("P3/theorem-4"), "exponent of (d.1) at L = d^1.5").kept
