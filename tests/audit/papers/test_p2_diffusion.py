"""The claims on P2 Section 6: what they find, and that each can find the opposite."""

import math

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.audit.papers.p2 import diffusion_comparison, diffusion_sampling, diffusion_theorem
from attangent.audit.papers.p2.diffusion_setting import diffusion_setting, network
from attangent.diffusion import (
    ExactScore,
    ForwardProcess,
    GaussianMixture,
    KernelScore,
    SoftmaxScore,
    relative_error,
)

SMALL = {
    "P2/score-relation": {"points": 60, "grid": 200, "samples": 4000, "walks": [5]},
    "P2/claim-g.1": {"n": 128, "m": 64, "steps": 60, "reference": 128},
    "P2/coupling-width": {"inits": 1},
    "P2/early-stopping": {"n": 128, "test": 600},
    "P2/theorem-6.5": {"sizes": [32, 256], "m": 64, "steps": 80, "test": 1000},
    "P2/sampling": {"n": 256, "m": 64, "steps": 100, "shown": [3, 100], "samples": 800, "test": 500},
    "P2/sampling-printed-time": {"samples": 2000, "walk": 60},
    "P2/score-comparison": {"n": 256, "m": 64, "steps": 100, "test": 1000},
}
FOUND = {
    "P2/score-relation": "holds",
    "P2/claim-g.1": "violated",
    "P2/coupling-width": "holds",
    "P2/early-stopping": "holds",
    "P2/theorem-6.5": "measured",
    "P2/sampling": "holds",
    "P2/sampling-printed-time": "violated",
    "P2/score-comparison": "violated",
}


def check(id, seed=1, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | SMALL[id] | changes, seed)


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    finding = check(id)
    assert finding.verdict == verdict
    assert finding.figures
    assert all(math.isfinite(value) for value in finding.numbers.values())


BROKEN = {
    "P2/score-relation": {"steps": 3},  # so few steps that samples are not samples
    "P2/coupling-width": {"rate": 2.5},  # an unstable rate: the kernel predictor blows up
    "P2/early-stopping": {"steps": 20},  # nobody has to stop yet
    "P2/theorem-6.5": {"sizes": [256, 32]},  # fewer data
    "P2/sampling": {"steps": 3, "shown": [1, 3]},  # hardly trained
}


@pytest.mark.parametrize(("id", "changes"), BROKEN.items(), ids=BROKEN)
def test_violated_where_a_hypothesis_is_broken(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


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


def test_claim_g1_fails_at_step_zero_and_holds_with_the_factor_four():
    finding = check("P2/claim-g.1")
    printed, corrected = finding.conclusions
    assert printed.first_violation == 0
    assert corrected.kept


def test_claim_g1_is_not_violated_by_a_function_beyond_the_target():
    """F_H = 2 F*: then <F_H, F* - F_H> is negative, and the printed sum is large enough."""

    def doubled(problem, model, settings):
        clean = problem.data.clean(problem.target, problem.process)
        return KernelScore.like(model, 1.0, 10**6).fit(clean.with_labels(2 * clean.y))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attangent.audit.papers.p2.diffusion_error.reference_function", doubled)
        finding = check("P2/claim-g.1")
    assert finding.verdict is not Verdict.VIOLATED


def test_coupling_falls_a_hundredfold_and_is_not_what_hurts():
    finding = check("P2/coupling-width", inits=3)
    assert finding.numbers["coupling falls by"] > 100
    assert all(conclusion.kept for conclusion in finding.conclusions)


def test_printed_time_would_hold_if_it_were_the_right_one(monkeypatch):
    monkeypatch.setattr(diffusion_sampling.PrintedClock, "score", lambda self, t, x: self.inner.score(t, x))
    assert check("P2/sampling-printed-time", samples=4000).verdict is Verdict.HOLDS


def test_comparison_would_hold_for_a_worse_relu_network(monkeypatch):
    right = diffusion_comparison._errors

    def worse(*args):
        found = right(*args)
        return found | {"mlp": 10 * found["mlp"]}

    monkeypatch.setattr(diffusion_comparison, "_errors", worse)
    assert check("P2/score-comparison").verdict is Verdict.HOLDS


def test_sampling_reaches_the_floor_with_the_exact_score(monkeypatch):
    def exact(problem, settings, inputs):
        model = network(problem, settings, inputs=inputs, keep=tuple(settings.shown)).fit(problem.data)
        monkeypatch.setattr(
            SoftmaxScore, "_mean", lambda self, t, x: problem.target.posterior_mean(problem.process, t, x)
        )
        return model

    monkeypatch.setattr(diffusion_sampling, "_trained", exact)
    finding = check("P2/sampling", samples=4000)
    assert finding.numbers["distance / floor, natural inputs"] < 1.2


@pytest.mark.parametrize(("name", "most"), [("paper's inputs", 0.11), ("natural inputs", 0.04)])
def test_relative_error_of_the_posterior_mean_over_three_seeds(name, most):
    """The settings of the quick comparison: four modes of radius 0.7 and deviation 0.1."""
    settings = registry.get("P2/score-comparison").quick
    inputs = diffusion_comparison.INPUTS[name]
    errors = []
    for seed in range(3):
        problem = diffusion_setting(settings, seed)
        model = network(problem, settings, inputs=inputs).fit(problem.data, problem.validation)
        errors.append(relative_error(model, problem.target, problem.test))
    assert sum(errors) / 3 <= most


def test_right_side_of_theorem_6_5_by_hand():
    settings = registry.get("P2/theorem-6.5").quick | {"n": 16, "m": 64, "steps": 10}
    problem = diffusion_setting(settings, 0)
    model = network(problem, settings).fit(problem.data)
    lam, top = diffusion_theorem._spectrum(problem, model)
    X = model.inputs(problem.process, problem.data.t, problem.data.x)
    g = X @ X.T
    values = torch.linalg.eigvalsh(g * g.exp())
    assert top == pytest.approx(values[-1].item())
    assert lam >= 1e-16 * top
    kernel = KernelScore(problem.process, math.inf, 1.0, model.inputs, 10, settings.rate).fit(problem.data)
    reach = math.sqrt(kernel.squared_norm / 2)
    A = math.sqrt(2) / reach * math.log(max(reach, math.e))
    Gamma = (8 * A / lam * math.log(math.e * 32**1.5 * A / lam) ** 1.5 + 0.25) ** 2
    Gamma += (2 * A / lam) ** 2 * (math.log(20) + math.log(math.log(16)))
    whole = 1 / (4 * lam) + 2 * A**2 + 2 * A + math.sqrt(2 * A * Gamma) + Gamma
    assert diffusion_theorem._log10_right_side(problem, model, settings) == pytest.approx(math.log10(whole))


def test_draws_of_a_problem_are_not_shared():
    settings = registry.get("P2/theorem-6.5").quick | {"n": 50, "test": 50, "validation": 50}
    problem = diffusion_setting(settings, 0)
    parts = [problem.data, problem.validation, problem.test, problem.fresh(50, purpose=10)]
    parts.append(diffusion_setting(settings, 1).data)
    for i, one in enumerate(parts):
        for other in parts[:i]:
            assert not torch.equal(one.x, other.x)


def test_exact_score_leaves_no_error_in_the_shared_problem():
    problem = diffusion_setting(registry.get("P2/claim-g.1").quick, 0)
    assert relative_error(ExactScore(problem.process, problem.target), problem.target, problem.test) == 0
