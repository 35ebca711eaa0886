"""The tests of `papers/p3/patterns.py`."""

import pytest
import torch

from attangent.audit import Verdict
from attangent.audit.papers.p3 import patterns
from tests.audit.papers.harness import ClaimSuite, checking, ours

SMALLER = {
    "P3/proposition-6": {"lengths": [33, 129, 513], "draws": 100},
}
"""Settings that show the same in less time."""
check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/proposition-6": "not reproduced",
        "P3/lemma-6": "violated",
    }
    benign = {
        "P3/proposition-6": {"labels": "independent"},
        "P3/lemma-6": {"signal": 1e-9},
    }
    check = staticmethod(check)


@pytest.mark.parametrize("id", ["P3/proposition-6"])
def test_the_corrected_form_holds(id):
    assert all(line.kept for line in ours(check(id)))


def test_signs_that_follow_the_noise_would_be_believed(monkeypatch):
    monkeypatch.setattr(patterns, "_flips_by_turning", lambda part, noise, norm: torch.tensor(part.L**0.6))
    assert check("P3/lemma-6").verdict is Verdict.HOLDS
