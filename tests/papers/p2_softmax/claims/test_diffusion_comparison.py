"""The tests of `papers/p2/diffusion_comparison.py`."""

import math

import pytest

from attangent.audit import Verdict, registry
from attangent.papers.p2_softmax.claims import diffusion_comparison
from attangent.papers.p2_softmax.claims.diffusion_setting import diffusion_setting, network
from attangent.papers.p2_softmax.diffusion import (
    relative_error,
)
from tests.papers.harness import ClaimSuite, checking

SMALLER = {
    "P2/score-comparison": {"n": 256, "m": 64, "steps": 100, "test": 1000},
}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P2/score-comparison": "violated",
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert finding.figures
        assert all(math.isfinite(value) for value in finding.numbers.values())


def test_comparison_would_hold_for_a_worse_relu_network(monkeypatch):
    right = diffusion_comparison._errors

    def worse(*args):
        found = right(*args)
        return found | {"mlp": 10 * found["mlp"]}

    monkeypatch.setattr(diffusion_comparison, "_errors", worse)
    assert check("P2/score-comparison").verdict is Verdict.HOLDS


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
