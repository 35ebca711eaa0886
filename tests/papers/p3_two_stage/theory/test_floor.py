"""The floor of K2: bounds, exact losses, constructions, and what optimisers and training find."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p3_two_stage.theory.attention import VALUES, ReluAttention
from attangent.papers.p3_two_stage.theory.constructions import (
    paper_solution,
)
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import q_loss, q_loss_bounds
from attangent.papers.p3_two_stage.theory.search import minimise_q_loss
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, train
from tests.papers.p3_two_stage.theory.fresh import HALF_LOG_2, LENGTHS, assert_above_the_floor


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
        (lambda: minimise_q_loss(TwoStageData(3, 5), "sgd"), "expected one of adam, lbfgs"),
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
