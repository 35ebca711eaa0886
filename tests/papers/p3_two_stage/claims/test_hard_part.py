"""The tests of `papers/p3/hard_part.py`."""

import dataclasses

import pytest

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p3_two_stage.claims import hard_part
from tests.papers.harness import ClaimSuite, checking, line, ours

SMALLER = {"P3/theorem-3": {"dimensions": [16, 64, 256, 1024], "N": 60, "search_prompts": 300, "starts": 1}}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/theorem-3": "violated",
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


def test_weights_and_losses_as_asked_would_be_believed(monkeypatch):
    right = hard_part._second_stage

    def as_asked(settings, d, seed):
        found = right(settings, 16, seed)
        return dataclasses.replace(found, norm=d, asked=d, loss=1 / d, epsilon=0.5)

    monkeypatch.setattr(hard_part, "_second_stage", as_asked)
    monkeypatch.setattr(hard_part, "_least_loss", lambda settings, d, seed: 1 / d)
    assert check("P3/theorem-3", second_rate=0.5).judgements["c.1"].verdict is Verdict.HOLDS
    assert check("P3/theorem-3", second_rate=0.5).verdict is Verdict.HOLDS


def test_unbalanced_prompts_make_the_hard_part_learnable():
    settings = get("P3/theorem-3").quick | {"search_prompts": 300, "starts": 1}
    least = [hard_part._least_loss(settings | {"p": p}, 64, 0) for p in (0.5, 0.6)]
    assert least[0] > 0.3
    assert least[1] < 0.01


def test_decay_keeps_the_signal_below_what_is_asked():
    found = hard_part._second_stage(get("P3/theorem-3").quick, 256, 0)
    assert found.norm <= found.most < 0.1 * found.asked


def test_the_loss_after_training_is_that_of_knowing_nothing():
    finding = check("P3/theorem-3")
    assert finding.numbers["K2 after training at the largest d"] == pytest.approx(0.6931, abs=0.01)
    assert line(finding, "(c.2) the same of the least K2").measured == pytest.approx(0.0, abs=0.1)
