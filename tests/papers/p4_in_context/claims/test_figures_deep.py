"""The tests of `papers/p4/figures_deep.py`."""

import pytest
import torch

from attangent.audit import registry
from attangent.papers.p4_in_context.claims import dictionary_setting, figures_deep
from attangent.papers.p4_in_context.claims.figures_one_layer import setting_of_section_4
from tests.papers.harness import ClaimSuite, checking, measured

SMALLER = {
    "P4/figure-2b": {"steps": 80},
    "P4/figure-4": {"steps": 400, "too_many": 40, "crowded_steps": 20},
}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P4/figure-2b": "smaller setting",
        "P4/figure-4": "smaller setting",
    }
    check = staticmethod(check)


PAIRS = {
    True: [(0.5 + 0.01 * i, 1.0) for i in range(10)],
    False: [(2.0 + 0.01 * i, 1.0) for i in range(10)],
    None: [(2.0, 1.0), (0.5, 1.0)] * 5,
}


@pytest.mark.parametrize("kept", PAIRS)
def test_pairs_decide_about_figure_5(monkeypatch, kept):
    pairs = iter(PAIRS[kept])
    monkeypatch.setattr(figures_deep, "_pair", lambda settings, seed: next(pairs))
    finding = check("P4/figure-5")
    assert [line.kept for line in finding.conclusions if line.decides][-1] is kept


def test_a_pair_is_trained_with_the_same_work():
    settings = registry.get("P4/figure-5").quick | {"steps": 4}
    few, many = figures_deep._pair(settings, 0)
    assert 0 < few != many > 0
    assert figures_deep._steps_for_the_same_work(settings | {"steps": 100}, 32) < 100


def test_a_loss_that_rises_is_found_out(monkeypatch):
    right = dictionary_setting.fall
    monkeypatch.setattr(dictionary_setting, "fall", lambda losses: 1 / right(losses))
    finding = check("P4/figure-2b", steps=20)
    assert any(line.decides and not line.kept for line in finding.conclusions)


def test_too_few_heads_are_judged_apart_from_too_many():
    finding = check("P4/figure-4")
    assert set(finding.judgements) == {"few heads", "too many heads"}
    lines = finding.conclusions
    assert all(line.kept for line in lines if line.part == "few heads")
    assert not any(line.kept for line in lines if line.part == "too many heads")


def test_more_heads_named_few_are_found_out():
    lines = check("P4/figure-4", few=[20], enough=[10, 12]).conclusions
    assert not all(line.kept for line in lines if line.part == "few heads")


def test_a_rate_at_which_the_loss_rises_is_seen_as_divergence():
    finding = check("P4/figure-4", rate=3.0, steps=40)
    assert measured(finding, "gap at the end / at the start with H = 40") > 1
    assert all(line.kept for line in finding.conclusions if line.part == "too many heads")


def test_the_largest_rise_is_between_two_readings():
    class Course:
        gaps = torch.tensor([4.0, 2.0, 3.0, 1.0])

    assert figures_deep._largest_rise(Course()) == pytest.approx(1.5)  # pyright: ignore[reportArgumentType]


def test_the_papers_own_setting_differs_in_nothing_but_the_steps():
    settings = registry.get("P4/figure-4").full
    assert setting_of_section_4(settings) == {"differs": ()}
