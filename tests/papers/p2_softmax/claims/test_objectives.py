"""The tests of `papers/p2/objectives.py`."""

import pytest
import torch

from attangent.audit import Verdict
from attangent.audit.registry import get
from attangent.papers.p2_softmax.claims import objectives
from attangent.papers.p2_softmax.claims.objectives import _minimiser
from attangent.papers.p2_softmax.diffusion import ExactScore, ForwardProcess, GaussianMixture
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {"P2/equation-6": "violated"}
    benign = {"P2/equation-6": {"from_zero": 0.5}}  # the same interval


def test_a_wrong_score_breaks_the_equivalence_on_one_interval(monkeypatch):
    class Wrong(ExactScore):
        def score(self, t, x):
            return 1.1 * super().score(t, x)

    monkeypatch.setattr(objectives, "ExactScore", Wrong)
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
