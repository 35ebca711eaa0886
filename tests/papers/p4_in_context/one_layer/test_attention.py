"""One-layer attention: exact gradients, the population loss against sampling, health."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent._core.errors import AttangentError
from attangent.icl import OUT_OF_DOMAIN, Dictionary, RidgeLimit, Tasks
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from tests.icl.examples import some_model

sizes = st.fixed_dictionaries(
    {
        "d": st.integers(2, 5),
        "m": st.integers(1, 5),
        "N": st.integers(2, 5),
        "tau": st.floats(1e-3, 1),
        "seed": st.integers(0, 99),
    }
)


def answers_as_printed(model, Q, w, labels):
    """Eq. 8, head by head and token by token."""
    tokens, N = model.dictionary.tokens, model.dictionary.N
    V = tokens[:N].T
    columns = [
        sum(w[h, k] * torch.softmax(V.T @ Q[h] @ v, 0) for h in range(len(Q))) for k, v in enumerate(tokens)
    ]
    return torch.stack([labels @ column for column in columns], dim=-1)


@given(sizes)
def test_answers_are_those_of_equation_8(given_sizes):
    model = some_model(**given_sizes)
    labels = model.dictionary.prompts(3).shown
    wanted = answers_as_printed(model, model.Q, model.w, labels)
    torch.testing.assert_close(model.predict(labels), wanted, rtol=1e-12, atol=1e-12)


@given(sizes)
def test_gradients_equal_autograd(given_sizes):
    """Of the loss by Eq. 74-77: E over tasks and noise taken by hand, the rest as printed."""
    model = some_model(**given_sizes)
    dictionary = model.dictionary
    Q, w = model.Q.clone().requires_grad_(), model.w.clone().requires_grad_()
    Ahat = answers_as_printed(model, Q, w, torch.eye(dictionary.N, dtype=torch.float64))
    misfit = (dictionary.Z @ Ahat - dictionary.features.T).square().sum()
    eye = torch.eye(dictionary.N, 7, dtype=torch.float64)
    noise = dictionary.ridge * ((Ahat - eye).square().sum() + 7 - dictionary.N)
    loss = (misfit + noise) / 14
    assert model.loss() == pytest.approx(loss.item(), rel=1e-10)
    dQ, dw = torch.autograd.grad(loss, (Q, w))
    got_Q, got_w = model.gradient()
    assert (got_Q - dQ).abs().max() <= 1e-12 * max(1, dQ.abs().max().item())
    assert (got_w - dw).abs().max() <= 1e-12 * max(1, dw.abs().max().item())


@given(sizes)
def test_sampled_gradients_equal_autograd(given_sizes):
    model = some_model(**given_sizes)
    labels = model.dictionary.prompts(5).labels
    Q, w = model.Q.clone().requires_grad_(), model.w.clone().requires_grad_()
    answers = answers_as_printed(model, Q, w, labels[:, : model.dictionary.N])
    dQ, dw = torch.autograd.grad((answers - labels).square().mean() / 2, (Q, w))
    got_Q, got_w = model.sampled_gradient(labels)
    assert (got_Q - dQ).abs().max() <= 1e-12 * max(1, dQ.abs().max().item())
    assert (got_w - dw).abs().max() <= 1e-12 * max(1, dw.abs().max().item())


@pytest.mark.parametrize("tasks", [Tasks(), Tasks("rademacher")])
def test_population_loss_equals_sampling(tasks):
    model = some_model(seed=4)
    prompts = model.dictionary.prompts(100_000, tasks, seed=2)
    sample = (model.predict(prompts.shown) - prompts.labels).square().mean(dim=1) / 2
    error = (sample.std() / len(sample) ** 0.5).item()
    assert abs(sample.mean().item() - model.loss()) <= 4 * error
    assert error < 0.02 * model.loss()


def test_inference_loss_is_twice_the_gap_in_domain():
    model = some_model()
    assert model.inference_loss() == pytest.approx(2 * model.gap(), rel=1e-12)
    prompts = model.dictionary.prompts(50_000, OUT_OF_DOMAIN)
    apart = model.predict(prompts.shown) - RidgeLimit(model.dictionary).predict(prompts.shown)
    assert apart.square().mean().item() == pytest.approx(model.inference_loss(OUT_OF_DOMAIN), rel=0.05)


def test_logits_start_with_the_spread_asked_for():
    for tokens in ("unit", "gaussian"):
        dictionary = Dictionary.random(K=40, d=30, m=4, N=8, tau=0.1, tokens=tokens)
        model = OneLayerAttention(dictionary, heads=40, logit_std=1.5)
        logits = dictionary.tokens[:8] @ model.Q @ dictionary.tokens.T
        assert logits.std().item() == pytest.approx(1.5, rel=0.05)


def test_parameters_can_be_set_and_are_checked():
    model = some_model()
    Q, w = torch.zeros(3, 5, 5), torch.ones(3, 7)
    model.set_parameters(Q, w)
    torch.testing.assert_close(model.matrix(), torch.full((4, 7), 0.75, dtype=torch.float64))
    with pytest.raises(AttangentError, match="Q has shape"):
        model.set_parameters(Q[:2], w)


@pytest.mark.parametrize("changes", [{"heads": 0}, {"heads": 2.5}, {"logit_std": 0.0}])
def test_refusals(changes):
    dictionary = Dictionary.random(K=7, d=5, m=4, N=4, tau=0.2)
    with pytest.raises(AttangentError):
        OneLayerAttention(**({"dictionary": dictionary, "heads": 4} | changes))
