"""Rules against slow references; those of scikit-learn are in test_compare."""

import torch
from sklearn.linear_model import Ridge

from attangent.icl import Dictionary
from attangent.icl.rules import descent, least_squares, mean, neighbours, ridge, ridge_on_tokens, zero

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
