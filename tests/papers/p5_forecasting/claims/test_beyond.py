"""The tests of `papers/p5/beyond.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import beyond
from tests.papers.harness import ClaimSuite, checking, measured

SMALLER = {"P5/section-7.2": {"proposed": ["rotary"], "test": 2000}}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/section-7.1": "violated",
        "P5/section-7.2": "holds",
    }
    broken = {
        "P5/section-7.2": {"proposed": ["position bias, values"], "others": []},
    }
    check = staticmethod(check)


def test_the_cases_are_a_tendency_and_no_more():
    assert 0.5 < measured(check("P5/section-7.1"), "follows the cases") < 0.8
    assert measured(check("P5/section-7.1", L=8, mixing=False, draws=50), "follows the cases") > 0.85


def test_longer_than_d_is_outside_the_hypothesis():
    assert check("P5/section-7.1", L=12, draws=50).verdict is Verdict.NOT_REPRODUCED


def test_cases_without_mixing_and_row_mean_would_be_believed(monkeypatch):
    monkeypatch.setattr(beyond, "_local_attention", lambda X, W: W)
    monkeypatch.setattr(beyond, "printed_gradient", lambda X, W, V, G: (G * (X @ V)).sum(dim=1))
    monkeypatch.setattr(beyond, "_gradient_gap", lambda *matrices: 0.0)
    monkeypatch.setattr(beyond, "local_change", lambda X, W, V, G, rate: -(G * (X @ V)).sum(dim=1))
    monkeypatch.setattr(beyond, "column_gap", lambda settings, seed: 0.0)
    right = beyond._draw
    monkeypatch.setattr(beyond, "_draw", lambda settings, rng: _without_weights(*right(settings, rng)))
    assert check("P5/section-7.1", draws=20).judgements["cases"].verdict is Verdict.HOLDS


def _without_weights(X, W, V, G):
    return X, torch.zeros(len(X), dtype=torch.float64), V, G


def test_columns_that_differ_are_found_out(monkeypatch):
    monkeypatch.setattr(beyond, "column_gap", lambda settings, seed: 0.1)
    assert check("P5/section-7.1", draws=5).judgements["columns"].verdict is Verdict.VIOLATED


def test_a_wrong_gradient_in_many_dimensions_is_found_out(monkeypatch):
    right = beyond.printed_gradient
    monkeypatch.setattr(beyond, "printed_gradient", lambda *a: right(*a) + 1e-6)
    assert measured(check("P5/section-7.1", draws=5), "gap of the gradient") > 1e-9


def test_the_same_finding_twice():
    first, second = (check("P5/section-7.2", steps=5, test=100) for _ in range(2))
    assert first.numbers == second.numbers
    assert torch.get_num_threads() == 1
