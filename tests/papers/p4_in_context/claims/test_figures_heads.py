"""The tests of `papers/p4/figures_heads.py`."""

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.papers.p4_in_context.claims import figures_heads
from attangent.papers.p4_in_context.claims.figures_one_layer import differences_from_section_4
from tests.papers.harness import ClaimSuite, checking, measured

SMALLER = {"P4/figure-4": {"steps": 400, "too_many": 40, "crowded_steps": 20}}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {"P4/figure-4": "not reproduced"}
    broken = {"P4/figure-4": {"few": [20], "enough": [10, 12]}}
    check = staticmethod(check)


def test_too_few_heads_are_judged_apart_from_too_many():
    parts = check("P4/figure-4").judgements
    assert parts["few heads"].verdict is Verdict.MEASURED
    assert parts["too many heads"].verdict is Verdict.NOT_REPRODUCED


def test_a_rate_at_which_the_loss_rises_is_seen_as_divergence():
    finding = check("P4/figure-4", rate=3.0, steps=40)
    assert measured(finding, "gap at the end / at the start with H = 40") > 1
    assert finding.judgements["too many heads"].verdict is Verdict.MEASURED


def test_the_largest_rise_is_between_two_readings():
    class Course:
        gaps = torch.tensor([4.0, 2.0, 3.0, 1.0])

    assert figures_heads._largest_rise(Course()) == pytest.approx(1.5)  # pyright: ignore[reportArgumentType]


def test_the_papers_own_setting_differs_in_nothing_but_the_steps():
    settings = registry.get("P4/figure-4").full
    assert differences_from_section_4(settings) == ()
