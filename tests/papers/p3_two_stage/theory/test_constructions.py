"""The constructions: what they reach."""

import pytest

from attangent.papers.p3_two_stage.theory.attention import ReluAttention
from attangent.papers.p3_two_stage.theory.constructions import (
    bias_solution,
    easy_solution,
    paper_solution,
    signed_solution,
)
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import q_loss, q_loss_bounds
from tests.papers.p3_two_stage.theory.fresh import HALF_LOG_2, LENGTHS, assert_above_the_floor, fresh_mean


@pytest.mark.parametrize("L", LENGTHS)
def test_the_variants_go_below_the_floor(L):
    data = TwoStageData(d=4, L=L)
    for variant, weights in (("bias", bias_solution(data)), ("signed", signed_solution(data))):
        mean, error = fresh_mean(weights, data, variant)
        assert mean < HALF_LOG_2 - 3 * error
        if L <= 129:
            exact = q_loss(weights, data, variant).K2.item()
            assert exact < HALF_LOG_2 / 2
    assert assert_above_the_floor(paper_solution(data), data) < q_loss_bounds(0.5, L).upper + 0.01


def test_the_easy_part_is_learned_by_its_optimal_weight():
    data = TwoStageData(d=8, L=65)
    model = ReluAttention(8)
    assert model.losses(data.sample(300), easy_solution(data, scale=200.0)).K1 < 0.01
