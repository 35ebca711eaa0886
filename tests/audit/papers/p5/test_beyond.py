"""The tests of `papers/p5/beyond.py`."""

import torch

from attangent.audit.papers.p5 import beyond
from tests.audit.papers.harness import ClaimSuite, checking, measured, ours

check = checking(seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/section-7.1": "violated",
        "P5/section-7.2": "violated",
    }
    benign = {
        "P5/section-7.1": {"mixing": False, "draws": 50},
        "P5/section-7.2": {"proposed": ["position bias, values"], "others": []},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding) if "risk with" not in line.name)


def test_a_wrong_gradient_in_many_dimensions_is_found_out(monkeypatch):
    right = beyond.printed_gradient
    monkeypatch.setattr(beyond, "printed_gradient", lambda *a: right(*a) + 1e-6)
    assert measured(check("P5/section-7.1", draws=5), "gap of the gradient") > 1e-9


def test_the_same_finding_twice():
    first, second = (check("P5/section-7.2", steps=5, test=100) for _ in range(2))
    assert first.numbers == second.numbers
    assert torch.get_num_threads() == 1
