"""The tests of `score.py`."""

import math

import pytest
import torch

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p2_softmax.claims import score
from attangent.papers.p2_softmax.claims.score import _minimiser
from attangent.papers.p2_softmax.diffusion import ExactScore, ForwardProcess, GaussianMixture
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


class TestObjectives(ClaimSuite):
    found = {"P2/equation-6": "violated", "P2/equation-6-repaired": "holds"}
    benign = {"P2/equation-6": {"from_zero": 0.5}}  # the same interval


def test_a_wrong_score_breaks_the_equivalence_on_one_interval(monkeypatch):
    class Wrong(ExactScore):
        def score(self, t, x):
            return 1.1 * super().score(t, x)

    monkeypatch.setattr(score, "ExactScore", Wrong)
    assert check("P2/equation-6").judgements["one interval of times"].verdict is Verdict.VIOLATED


def test_the_minimiser_is_that_of_sampled_losses():
    settings = get("P2/equation-6").quick
    process = ForwardProcess(T=settings.T, T0=settings.T0)
    target = GaussianMixture.ring(settings.modes, settings.radius, settings.sd)
    rng = torch.Generator().manual_seed(0)
    t = process.draw_times(50_000, rng, "uniform")
    x = process.noised(target.draw(50_000, rng), t, rng)
    score = ExactScore(process, target).score(t, x)
    best = -(x * score).sum() / x.square().sum()
    assert _minimiser(process, target, settings.T0, settings) == pytest.approx(best.item(), rel=0.03)


def test_a_wrong_score_is_found_out(monkeypatch):
    class Wrong(ExactScore):
        def score(self, t, x):
            return 1.3 * super().score(t, x)

    monkeypatch.setattr(score, "ExactScore", Wrong)
    assert check("P2/equation-6-repaired").verdict is Verdict.VIOLATED
