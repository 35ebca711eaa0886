"""The search for a better V: exact losses by counts, and no find below the floor."""

import pytest
import torch

from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.attention import VALUES, ReluAttention
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.search import minimise_q_loss, q_losses
from tests.papers.p3_two_stage.theory.fresh import HALF_LOG_2, LENGTHS, assert_above_the_floor, fresh_mean


@pytest.mark.parametrize("variant", tuple(VALUES))
def test_losses_by_counts_equal_those_of_the_model(variant):
    data = TwoStageData(d=3, L=12)
    model = ReluAttention(3, variant, std=0.7, runs=2, seed=2)
    drawn = data.sample_q(50, seed=0)
    found = q_losses(model.weights, data, variant, drawn).mean(-1)
    slow = torch.stack(
        [
            ReluAttention(3, variant).losses(drawn, model.weights.map(lambda part, i=i: part[i])).K2
            for i in (0, 1)
        ]
    )
    torch.testing.assert_close(found, slow, rtol=0, atol=1e-13)


@pytest.mark.parametrize("L", LENGTHS)
@pytest.mark.parametrize("method", ["adam", "lbfgs"])
def test_what_optimisers_find_stays_above_the_floor(method, L):
    data = TwoStageData(d=4, L=L)
    found = minimise_q_loss(data, method, starts=6, steps=120, prompts=600, seed=L)
    best = assert_above_the_floor(found, data)
    assert best < 0.65  # some start has left log 2, so that the floor was in reach


def test_small_training_sets_can_dip_below_the_floor():
    """Why the floor is measured on fresh prompts."""
    data = TwoStageData(d=4, L=9)
    found = minimise_q_loss(data, "lbfgs", starts=12, prompts=12, seed=5)
    fresh, _ = fresh_mean(found, data)
    own = q_losses(found, data, "paper", data.sample_q(12, seed=generator(5, "prompts of the search"))).mean(
        -1
    )
    assert own.min() < HALF_LOG_2 < fresh.min()
