"""The tests of `papers/p2/diffusion_setting.py`."""

import torch

from attangent.audit import registry
from attangent.papers.p2_softmax.claims.diffusion_setting import diffusion_setting
from attangent.papers.p2_softmax.diffusion import (
    ExactScore,
    relative_error,
)


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
