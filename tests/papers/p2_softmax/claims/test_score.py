"""The tests of `papers/p2/score.py`."""

import math

import pytest
import torch

from attangent.papers.p2_softmax.diffusion import (
    ForwardProcess,
    GaussianMixture,
)
from tests.papers.harness import ClaimSuite, checking

SMALLER = {
    "P2/score-relation": {"points": 60, "grid": 200, "samples": 4000, "walks": [5]},
}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P2/score-relation": "holds",
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert finding.figures
        assert all(math.isfinite(value) for value in finding.numbers.values())


def test_the_quality_of_samples_does_not_decide():
    assert check("P2/score-relation", steps=3).verdict == "holds"  # so few steps that samples are not samples


def test_score_relation_finds_a_wrong_score(monkeypatch):
    def without_alpha(self, mean, t, x):
        return (mean - x) / self.variance(torch.as_tensor(t).expand(len(x)))[:, None]

    monkeypatch.setattr(ForwardProcess, "score", without_alpha)
    finding = check("P2/score-relation")
    assert finding.conclusions[0].kept is False


def faded(self, t):
    return torch.exp(-0.51 * self.schedule.integral(t))


@pytest.mark.parametrize(
    ("conclusion", "falsify"),
    [
        ("Bayes", lambda right: lambda self, *args: right(self, *args) * (1 + 1e-6)),
        ("moment", None),
        ("Fokker", None),
    ],
)
def test_score_relation_finds_wrong_parts(monkeypatch, conclusion, falsify):
    if falsify:
        right = GaussianMixture.posterior_mean
        monkeypatch.setattr(GaussianMixture, "posterior_mean", falsify(right))
    else:
        monkeypatch.setattr(ForwardProcess, "alpha", faded)
    finding = check("P2/score-relation")
    found = next(part for part in finding.conclusions if conclusion in part.name)
    assert found.kept is False
