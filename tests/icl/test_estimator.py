"""The ridge limit as scikit-learn sees it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from attangent._core.errors import AttangentError
from attangent.icl import Dictionary, InContextRidge, RidgeLimit


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([InContextRidge()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@given(rows=st.integers(2, 12), m=st.integers(1, 12), tau=st.floats(1e-3, 3), seed=st.integers(0, 99))
def test_equals_ridge(rows, m, tau, seed):
    rng = np.random.default_rng(seed)
    X, y, new = rng.normal(size=(rows, m)), rng.normal(size=rows), rng.normal(size=(5, m))
    ridge = Ridge(alpha=m * tau, fit_intercept=False, solver="cholesky").fit(X, y)
    ours = InContextRidge(tau=tau).fit(X, y)
    np.testing.assert_allclose(ours.predict(new), ridge.predict(new), atol=1e-10)
    np.testing.assert_allclose(ours.coef_, ridge.coef_, atol=1e-10)


def test_equals_the_limit_of_attention_under_a_representation():
    def squares(v):
        return np.asarray(v)[:, :3] ** 2

    dictionary = Dictionary.of(np.random.default_rng(0).normal(size=(12, 4)), squares, N=6, tau=0.1)
    labels = dictionary.prompts(1).shown[0]
    tokens = dictionary.tokens.numpy()
    ours = InContextRidge(tau=0.1, representation=squares).fit(tokens[:6], labels.numpy())
    np.testing.assert_allclose(
        ours.predict(tokens[6:]), RidgeLimit(dictionary).predict(labels)[6:].numpy(), atol=1e-12
    )


def test_negative_noise_is_refused():
    with pytest.raises(AttangentError, match="tau is -1"):
        InContextRidge(tau=-1).fit(np.ones((3, 2)), np.ones(3))
