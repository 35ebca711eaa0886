"""The tests of `papers/p4/figures_deep.py`."""

import pytest

from attangent.audit import registry
from attangent.papers.p4_in_context.claims import curves, figures_deep
from tests.papers.harness import ClaimSuite, checking

check = checking({"P4/figure-2b": {"steps": 80}})


class TestClaims(ClaimSuite):
    found = {
        "P4/figure-2b": "smaller setting",
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
    right = curves.fall
    monkeypatch.setattr(curves, "fall", lambda losses: 1 / right(losses))
    finding = check("P4/figure-2b", steps=20)
    assert any(line.decides and not line.kept for line in finding.conclusions)
