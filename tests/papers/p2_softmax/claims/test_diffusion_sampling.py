"""The tests of `diffusion_sampling.py`."""

import math

from attangent.audit import Verdict
from attangent.papers.p2_softmax.claims import diffusion_sampling
from attangent.papers.p2_softmax.diffusion import ExactScore, SoftmaxScore
from tests.papers.harness import ClaimSuite, checking

SMALLER = {
    "P2/sampling": {"n": 256, "m": 64, "steps": 100, "shown": [3, 100], "samples": 800, "test": 500},
    "P2/sampling-printed-time": {"samples": 2000, "walk": 60},
}
"""Settings that show the same in less time."""


check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P2/sampling": "holds",
        "P2/sampling-printed-time": "violated",
    }
    broken = {
        "P2/sampling": {"steps": 3, "shown": [1, 3]},  # hardly trained
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert finding.figures
        assert all(math.isfinite(value) for value in finding.numbers.values())


class TestRepairs(ClaimSuite):
    found = {"P2/sampling-printed-time-repaired": "holds"}


def test_printed_time_would_hold_if_it_were_the_right_one(monkeypatch):
    monkeypatch.setattr(diffusion_sampling.PrintedClock, "score", lambda self, t, x: self.inner.score(t, x))
    assert check("P2/sampling-printed-time", samples=2000).verdict is Verdict.HOLDS


def test_sampling_reaches_the_floor_with_the_exact_score(monkeypatch):
    def exact(problem, settings, inputs):
        model = problem.network(settings, inputs=inputs, keep=tuple(settings.shown)).fit(problem.data)
        monkeypatch.setattr(
            SoftmaxScore, "_mean", lambda self, t, x: problem.target.posterior_mean(problem.process, t, x)
        )
        return model

    monkeypatch.setattr(diffusion_sampling, "_trained", exact)
    finding = check("P2/sampling", samples=4000)
    assert finding.numbers["distance / floor, natural inputs"] < 1.2


def test_a_wrong_score_is_found_out(monkeypatch):
    class Wrong(ExactScore):
        def score(self, t, x):
            return 1.3 * super().score(t, x)

    monkeypatch.setattr(diffusion_sampling, "ExactScore", Wrong)
    assert check("P2/sampling-printed-time-repaired").verdict is Verdict.VIOLATED
