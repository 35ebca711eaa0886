"""The tests of `two_stage_setting.py`."""

import pytest

from attangent.audit.registry import get
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, easy_pull, signal_norm
from attangent.papers.p3_two_stage.theory.attention import ReluAttention


def test_assumption_1_by_hand():
    scale = Assumption1.of(get("P3/theorem-2").quick, 16)
    root = scale.root_log
    assert (scale.weight_decay * root, scale.init_std * root) == pytest.approx((1.0, 1.0))
    assert scale.L == 16**2 + 1
    assert scale.first_steps(0.1) == round(10 * root)
    assert scale.easy_epsilon == pytest.approx(1.25**2 * (16 / 257) ** 0.5)


def test_the_mean_gradient_of_the_easy_part_while_answers_are_small():
    scale = Assumption1.of(get("P3/theorem-2").quick | {"u": 0.01, "r": 0.001, "runs": 1, "N": 600}, 8)
    model = ReluAttention(8, std=1e-4, runs=1, seed=0)
    gradient = model.gradient(scale.data().sample(600, runs=1, seed=0)).W
    assert signal_norm(gradient).item() == pytest.approx(easy_pull(8), rel=0.1)
