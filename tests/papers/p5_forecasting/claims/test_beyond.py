"""The tests of `papers/p5/beyond.py`."""

import torch

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import beyond
from tests.papers.harness import ClaimSuite, checking, line, measured

SMALLER = {"P5/section-7.2": {"proposed": ["rotary"], "test": 2000}}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/section-7.1": "holds",
        "P5/section-7.2": "holds",
    }
    broken = {
        "P5/section-7.2": {"proposed": ["position bias, values"], "others": []},
    }
    check = staticmethod(check)


def test_the_cases_are_a_tendency_and_no_more():
    finding = check("P5/section-7.1")
    assert measured(finding, "against chance") < 0.8
    assert not line(finding, "nearly all").decides
    assert measured(check("P5/section-7.1", L=8, mixing=False, draws=50), "against chance") > 0.85


def test_longer_than_d_is_outside_the_hypothesis():
    assert check("P5/section-7.1", L=12, draws=50).verdict is Verdict.MEASURED


def test_a_rule_turned_round_is_found_out(monkeypatch):
    right = beyond._local_attention
    monkeypatch.setattr(beyond, "_local_attention", lambda X, W: -right(X, W))
    assert check("P5/section-7.1", draws=50).judgements["cases"].verdict is Verdict.VIOLATED


def test_a_wrong_gradient_in_many_dimensions_is_found_out(monkeypatch):
    right = beyond.printed_gradient
    monkeypatch.setattr(beyond, "printed_gradient", lambda *a: right(*a) + 1e-6)
    assert measured(check("P5/section-7.1", draws=5), "gap of the gradient") > 1e-9


def test_the_same_finding_twice():
    first, second = (check("P5/section-7.2", steps=5, test=100) for _ in range(2))
    assert first.numbers == second.numbers
    assert torch.get_num_threads() == 1
