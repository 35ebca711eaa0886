"""The tests of `papers/p4/figures_one_layer.py`."""

import pytest

from attangent.audit import Verdict, registry
from attangent.icl import RidgeLimit
from attangent.papers.p4_in_context.claims import dictionary_setting, figures_one_layer
from tests.papers.harness import ClaimSuite, checking

SMALLER = {"P4/figure-2a": {"steps": 200}}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P4/figure-2a": "smaller setting",
        "P4/figure-3": "violated",
        "P4/figure-3-repaired": "holds",
        "P4/fitting": "violated",
    }
    benign = {
        "P4/figure-3": {"lengths": [100]},
        "P4/fitting": {"noise_factor": 4.0},
    }
    check = staticmethod(check)


def test_wrong_turns_are_counted_from_both_sides():
    assert figures_one_layer._wrong_turns([8, 9, 10, 11, 12], [2.0, 1.0, 0.0, 1.0, 2.0], 10) == 0
    assert figures_one_layer._wrong_turns([8, 9, 10, 11, 12], [1.0, 2.0, 0.0, 2.0, 1.0], 10) == 2


def test_a_loss_that_rises_is_found_out(monkeypatch):
    right = dictionary_setting.fall
    monkeypatch.setattr(dictionary_setting, "fall", lambda losses: 1 / right(losses))
    finding = check("P4/figure-2a", steps=50)
    assert any(line.decides and not line.kept for line in finding.conclusions)


def test_another_ridge_is_not_the_best_predictor(monkeypatch):
    right = RidgeLimit.risk
    monkeypatch.setattr(
        RidgeLimit, "risk", lambda self: right(self) * (1 + (self.alpha == self.dictionary.ridge))
    )
    assert check("P4/figure-3-repaired").verdict is Verdict.VIOLATED


def test_the_risk_on_fixed_tokens_is_that_of_the_limit():
    given = figures_one_layer.draw_dictionary(registry.get("P4/figure-3").quick, 0)
    risk = figures_one_layer._risk_on_the_last_tokens(given, given.N)
    assert risk == pytest.approx(RidgeLimit(given).risk())
