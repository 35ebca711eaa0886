"""The ridge limit: both forms, scikit-learn's answers, losses and risks against sampling."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from attangent._core.errors import AttangentError
from attangent.icl import (
    OUT_OF_DOMAIN,
    Dictionary,
    RidgeLimit,
    Tasks,
    clean_risk,
    expected_distance,
)
from attangent.icl.rules import descent, least_squares, mean, neighbours, ridge, ridge_on_tokens, zero

sizes = st.fixed_dictionaries(
    {"m": st.integers(1, 9), "N": st.integers(1, 9), "tau": st.floats(1e-3, 2), "seed": st.integers(0, 99)}
)


@given(sizes)
def test_predictions_are_those_of_scikit_learn(given_sizes):
    dictionary = Dictionary.random(K=12, d=5, **given_sizes)
    labels = dictionary.prompts(3).shown
    for limit, alpha in (
        (RidgeLimit(dictionary), dictionary.m * dictionary.tau),
        (RidgeLimit.best(dictionary), dictionary.N * dictionary.tau),
    ):
        ridge = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky")
        ridge.fit(dictionary.Z.T.numpy(), labels.T.numpy())
        wanted = ridge.predict(dictionary.Z_query.T.numpy()).reshape(12 - dictionary.N, 3).T
        np.testing.assert_allclose(limit.predict(labels)[:, dictionary.N :].numpy(), wanted, atol=1e-10)
        np.testing.assert_allclose(limit.template(labels).numpy(), ridge.coef_.reshape(3, -1), atol=1e-10)
        assert torch.equal(limit.predict(labels)[:, : dictionary.N], labels)


@given(sizes)
def test_matrix_is_that_of_equation_34(given_sizes):
    dictionary = Dictionary.random(K=12, d=5, **given_sizes)
    N, eye = dictionary.N, torch.eye(dictionary.N, 12, dtype=torch.float64)
    right = dictionary.Z.T @ dictionary.features.T + dictionary.ridge * eye
    torch.testing.assert_close(
        RidgeLimit(dictionary).A, torch.linalg.solve(dictionary.M, right), rtol=0, atol=1e-9
    )
    assert torch.equal(RidgeLimit(dictionary).A[:, :N], torch.eye(N, dtype=torch.float64))


def test_no_noise_gives_the_pseudo_inverse():
    dictionary = Dictionary.random(K=12, d=5, m=3, N=6, tau=0.0)
    prompts = dictionary.prompts(4)
    torch.testing.assert_close(RidgeLimit(dictionary).predict(prompts.shown), prompts.clean)


@pytest.mark.parametrize("tasks", [Tasks(), Tasks("rademacher"), OUT_OF_DOMAIN])
def test_risk_and_distance_against_sampling(tasks):
    dictionary = Dictionary.random(K=12, d=5, m=4, N=6, tau=0.2, seed=3)
    test_noise = dictionary.with_noise(0.7)
    prompts = test_noise.prompts(40_000, tasks, seed=1)
    limit, best = RidgeLimit(dictionary), RidgeLimit.best(dictionary)
    answers = limit.predict(prompts.shown)
    errors = (answers - prompts.clean)[:, 6:].square().mean(dim=1)
    assert_within_4_errors(errors, limit.risk(tasks, tau=0.7))
    distances = (answers - best.predict(prompts.shown)).square().mean(dim=1)
    assert_within_4_errors(distances, expected_distance(dictionary, limit.A, best.A, tasks, tau=0.7))


def assert_within_4_errors(sample, expected):
    error = (sample.std() / len(sample) ** 0.5).item()
    assert abs(sample.mean().item() - expected) <= 4 * error


@given(sizes, st.floats(0.2, 5))
def test_no_other_ridge_has_less_risk_in_domain(given_sizes, factor):
    dictionary = Dictionary.random(K=12, d=5, **given_sizes)
    other = RidgeLimit(dictionary, alpha=factor * dictionary.ridge)
    assert RidgeLimit(dictionary).risk() <= other.risk() * (1 + 1e-10)


def test_least_loss_of_the_notes():
    """(m tau / 2K) sum over k > N of 1 + z_k'(m tau I + Z Z')^-1 z_k."""
    dictionary = Dictionary.random(K=12, d=5, m=4, N=6, tau=0.2, seed=3)
    inner = dictionary.ridge * torch.eye(4, dtype=torch.float64) + dictionary.Z @ dictionary.Z.T
    query = dictionary.Z_query
    sums = 6 + (query * torch.linalg.solve(inner, query)).sum()
    wanted = (dictionary.ridge / 24 * sums).item()
    assert RidgeLimit(dictionary).least_loss == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(AttangentError, match="belongs to the ridge m tau"):
        RidgeLimit.best(dictionary).least_loss  # noqa: B018


def test_refusals():
    dictionary = Dictionary.random(K=12, d=5, m=4, N=6, tau=0.2)
    with pytest.raises(AttangentError, match="labels has shape"):
        RidgeLimit(dictionary).predict(torch.ones(3, 12))
    with pytest.raises(AttangentError, match="NaN"):
        RidgeLimit(dictionary).predict(torch.full((6,), float("nan")))
    with pytest.raises(AttangentError, match="K = N leaves none"):
        clean_risk(dictionary.with_prompt_length(12), torch.ones(12, 12))


DICTIONARY = Dictionary.random(K=14, d=4, m=4, N=8, tau=0.05, seed=2, representation="linear")
SHOWN, QUERIES = DICTIONARY.tokens[:8], DICTIONARY.tokens[8:]
LABELS = DICTIONARY.prompts(3).shown


def test_least_squares_is_what_lstsq_gives():
    w = torch.linalg.lstsq(SHOWN, LABELS.T).solution
    torch.testing.assert_close(least_squares(DICTIONARY, LABELS), (QUERIES @ w).T)


def test_ridge_on_tokens_is_that_of_scikit_learn_and_ridge_where_tokens_are_features():
    scale = DICTIONARY.features.square().sum() / DICTIONARY.tokens.square().sum()
    model = Ridge(alpha=(4 * 0.05 / scale).item(), fit_intercept=False).fit(SHOWN, LABELS.T)
    torch.testing.assert_close(
        ridge_on_tokens(DICTIONARY, LABELS), torch.from_numpy(model.predict(QUERIES)).T
    )
    seen = Dictionary.of(DICTIONARY.tokens, lambda v: v, N=8, tau=0.05)
    assert torch.equal(ridge_on_tokens(seen, LABELS), ridge(seen, LABELS))


def test_descent_goes_to_least_squares_and_its_first_step_is_the_gradient():
    torch.testing.assert_close(
        descent(20_000)(DICTIONARY, LABELS), least_squares(DICTIONARY, LABELS), rtol=1e-4, atol=1e-4
    )
    w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    ((SHOWN @ w - LABELS[0]).square().sum() / 2).backward()
    rate = 1 / torch.linalg.eigvalsh(SHOWN.T @ SHOWN)[-1]
    torch.testing.assert_close(descent(1)(DICTIONARY, LABELS)[0], QUERIES @ (-rate * w.grad))


def test_all_neighbours_are_the_mean_label():
    torch.testing.assert_close(neighbours(99)(DICTIONARY, LABELS), mean(DICTIONARY, LABELS))
    assert not zero(DICTIONARY, LABELS).any()
