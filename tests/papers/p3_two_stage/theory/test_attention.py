"""Normalised-ReLU attention: closed forms against plain loops and autograd."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import softplus

from attangent import AttangentError
from attangent.papers.p3_two_stage.theory.attention import VALUES, ReluAttention
from attangent.papers.p3_two_stage.theory.data import TwoStageData

VARIANTS = tuple(VALUES)


def model_on(data, variant, runs=None, seed=0):
    model = ReluAttention(data.d, variant, std=1.0, runs=runs, seed=seed)
    if variant == "bias":
        model.weights = model.weights._replace(bias=model.weights.bias + 0.3)
    return model


def slow_answers(model, weights, prompts):
    """h and g of one run, token by token."""

    def network(x, U):
        total = 0.0
        for value, head in zip(model.values, U, strict=True):
            for i in range(prompts.L - 1):
                seen = (x[:, i] * (x[:, -1] @ head.T)).sum(-1).relu()
                total = total + value * prompts.y[:, i] * seen
        return total / prompts.L

    return network(prompts.x1, weights.W), network(prompts.x2, weights.V) + weights.bias


@pytest.mark.parametrize("variant", VARIANTS)
def test_answers_equal_a_sum_token_by_token(variant):
    data = TwoStageData(d=5, L=8, p_only=0.2, q_only=0.2)
    prompts = data.sample(20, seed=3)
    model = model_on(data, variant)
    h, g = slow_answers(model, model.weights, prompts)
    torch.testing.assert_close(model.h(prompts), h, rtol=0, atol=1e-13)
    torch.testing.assert_close(model.g(prompts), g, rtol=0, atol=1e-13)
    torch.testing.assert_close(model.f(prompts), (h + g) / 2, rtol=0, atol=1e-13)


@pytest.mark.parametrize("variant", VARIANTS)
@given(
    d=st.integers(2, 6),
    L=st.integers(2, 12),
    p=st.floats(0.1, 0.9),
    n=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_gradient_equals_autograd(variant, d, L, p, n, seed):
    data = TwoStageData(d=d, L=L, p=p, p_only=0.1, q_only=0.1)
    prompts = data.sample(n, seed=seed)
    model = model_on(data, variant, seed=seed)
    weights = model.weights.map(lambda part: part.clone().requires_grad_())
    h, g = slow_answers(model, weights, prompts)
    loss = softplus(-prompts.answers * (h + g) / 2).mean()
    wanted = torch.autograd.grad(loss, list(weights))
    gradient = model.gradient(prompts)
    trained = 3 if variant == "bias" else 2
    for found, expected in zip(gradient[:trained], wanted, strict=False):
        assert (found - expected).abs().max() <= 1e-12


def test_gradient_at_the_size_of_the_stage_experiment():
    data = TwoStageData(d=16, L=33)
    prompts = data.sample(128, seed=0)
    model = model_on(data, "bias")
    weights = model.weights.map(lambda part: part.clone().requires_grad_())
    h, g = slow_answers(model, weights, prompts)
    wanted = torch.autograd.grad(softplus(-prompts.answers * (h + g) / 2).mean(), list(weights))
    for found, expected in zip(model.gradient(prompts), wanted, strict=True):
        assert (found - expected).abs().max() <= 1e-12


@pytest.mark.parametrize("variant", VARIANTS)
def test_runs_at_once_equal_runs_one_by_one(variant):
    data = TwoStageData(d=4, L=6, p_only=0.2)
    prompts = data.sample(7, runs=3, seed=0)
    model = model_on(data, variant, runs=3)
    losses, gradient = model.losses(prompts), model.gradient(prompts)
    for run in range(3):
        alone = ReluAttention(4, variant)
        alone.weights = model.weights.map(lambda part, run=run: part[run])
        one = type(prompts)(
            *(getattr(prompts, name)[run] for name in ("x1", "kinds", "y", "shows_p", "shows_q")),
            data.prototypes,
        )
        for found, expected in zip(losses, alone.losses(one), strict=True):
            torch.testing.assert_close(found[run], expected, equal_nan=True)
        for found, expected in zip(gradient, alone.gradient(one), strict=True):
            torch.testing.assert_close(found[run], expected, rtol=0, atol=1e-14)


def test_losses_split_by_part_and_class():
    data = TwoStageData(d=4, L=6, p_only=0.3, q_only=0.3)
    prompts = data.sample(60, seed=1)
    model = model_on(data, "paper")
    losses = model.losses(prompts)
    y, h, g = prompts.answers, model.h(prompts), model.g(prompts)
    with_q = prompts.shows_q > 0
    torch.testing.assert_close(losses.K, softplus(-y * (h + g) / 2).mean())
    torch.testing.assert_close(losses.K1, softplus(-y * h)[prompts.shows_p > 0].mean())
    torch.testing.assert_close(losses.K2, softplus(-y * g)[with_q].mean())
    torch.testing.assert_close(losses.K2_positive, softplus(-g)[with_q & (y > 0)].mean())
    torch.testing.assert_close(losses.K2_negative, softplus(g)[with_q & (y < 0)].mean())


def test_prompts_of_q_parts_alone():
    data = TwoStageData(d=4, L=50)
    model = model_on(data, "signed")
    drawn = data.sample_q(30, seed=0)
    assert (model.h(drawn) == 0).all()
    assert model.losses(drawn).K1.isnan()
    assert (model.gradient(drawn).W == 0).all()


def test_refusals():
    with pytest.raises(AttangentError, match="variant is 'softmax', expected one of paper, bias, signed"):
        ReluAttention(4, "softmax")
    with pytest.raises(AttangentError, match="std is -1"):
        ReluAttention(4, std=-1)
    with pytest.raises(AttangentError, match="d is 0"):
        ReluAttention(0)
