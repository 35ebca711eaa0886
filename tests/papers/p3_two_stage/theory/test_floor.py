"""The floor of K2: bounds, exact losses, weights in closed form, and what optimisers and training find."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p3_two_stage.theory.attention import VALUES, ReluAttention
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import (
    bias_solution,
    minimise_q_loss,
    paper_solution,
    q_loss,
    q_loss_bounds,
    q_losses,
    signed_solution,
)
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, train
from tests.papers.p3_two_stage.theory.fresh import HALF_LOG_2, LENGTHS, assert_above_the_floor, fresh_mean


def test_bounds_for_balanced_prompts():
    assert q_loss_bounds(0.5, 9).lower == pytest.approx(HALF_LOG_2 * (1 + 0.5**8))
    assert q_loss_bounds(0.5, 9).upper == pytest.approx(HALF_LOG_2 * (1 + 0.75**8))
    assert q_loss_bounds(0.5, 1025) == pytest.approx((HALF_LOG_2, HALF_LOG_2))
    assert q_loss_bounds(0.25, 129) == pytest.approx((math.log(2) / 4,) * 2, abs=1e-8)


def test_unbalanced_prompts_can_be_learned():
    assert q_loss_bounds(0.6, 1025).upper < 0.005
    assert q_loss_bounds(0.6, 129).upper < 0.02
    assert q_loss_bounds(0.0, 5).lower == 0.0


@given(p=st.floats(0.01, 0.99), L=st.integers(2, 60))
def test_bounds_are_in_order_and_the_construction_reaches_the_upper(p, L):
    bounds = q_loss_bounds(p, L)
    assert bounds.lower <= bounds.upper + 1e-12
    data = TwoStageData(d=3, L=L, p=p)
    assert q_loss(paper_solution(data, scale=1e7), data).K2.item() == pytest.approx(bounds.upper, abs=1e-6)


@given(p=st.floats(0.01, 0.5), L=st.integers(2, 25), scale=st.floats(0.01, 100), seed=st.integers(0, 500))
def test_no_v_goes_below_the_lower_bound(p, L, scale, seed):
    data = TwoStageData(d=3, L=L, p=p)
    found = q_loss(ReluAttention(3, std=scale, seed=seed).weights, data)
    floor = q_loss_bounds(p, L).lower
    assert found.K2.item() >= floor - 1e-12
    assert found.positive >= math.log(2) - 1e-12


@pytest.mark.parametrize("variant", tuple(VALUES))
def test_the_exact_loss_is_the_mean_over_drawn_prompts(variant):
    data = TwoStageData(d=3, L=12, p=0.4)
    model = ReluAttention(3, variant, std=0.7, seed=2)
    exact = q_loss(model.weights, data, variant)
    prompts = data.sample(40_000, seed=3)
    drawn = model.losses(prompts)
    assert drawn.K2.item() == pytest.approx(exact.K2.item(), rel=0.02)
    assert drawn.K2_positive.item() == pytest.approx(exact.positive.item(), rel=0.02)
    assert drawn.K2_negative.item() == pytest.approx(exact.negative.item(), rel=0.02)


@pytest.mark.parametrize("L", LENGTHS)
def test_what_training_finds_stays_above_the_floor(L):
    data = TwoStageData(d=4, L=L, u=1.0)
    model = ReluAttention(4, std=0.3, runs=6, seed=L)
    config = NoisySGD((ConstantRate(20.0, 200),), weight_decay=1e-4, init_std=0.3, record_every=200)
    train(model, data.sample_q(64, runs=6, seed=L), config, seed=L)
    best = assert_above_the_floor(model.weights, data)
    assert best < 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: q_loss_bounds(-0.1, 9), "p is -0.1"),
        (lambda: q_loss_bounds(0.5, 1), "L is 1"),
        (lambda: minimise_q_loss(TwoStageData(3, 5), steps=0), "steps is 0"),
        (lambda: paper_solution(TwoStageData(3, 5), scale=0), "scale is 0"),
        (
            lambda: q_loss(ReluAttention(3).weights, TwoStageData(3, 4000)),
            "L is 4000, expected at most 3000",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AttangentError, match=message):
        call()


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
    W = 200.0 * torch.outer(data.w_star, data.w_star)
    weights = model.weights._replace(W=W[None])
    assert model.losses(data.sample(300), weights).K1 < 0.01


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
def test_what_the_search_finds_stays_above_the_floor(L):
    data = TwoStageData(d=4, L=L)
    found = minimise_q_loss(data, starts=6, steps=120, prompts=600, seed=L)
    best = assert_above_the_floor(found, data)
    assert best < 0.65  # some start has left log 2, so that the floor was in reach


def test_small_training_sets_can_dip_below_the_floor():
    """Why the floor is measured on fresh prompts."""
    data = TwoStageData(d=4, L=9)
    found = minimise_q_loss(data, starts=24, prompts=12, seed=4)
    fresh, _ = fresh_mean(found, data)
    searched = data.sample_q(12, seed=generator(4, "prompts of the search"))
    training = q_losses(found, data, "paper", searched).mean(-1)
    assert training.min() < HALF_LOG_2 < fresh.min()
