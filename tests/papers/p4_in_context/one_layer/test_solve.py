"""Solving for w: the limit, at the least norm."""

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.icl import OUT_OF_DOMAIN, RidgeLimit
from tests.icl.examples import model


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("heads", [12, 24])
def test_solve_reaches_the_limit(heads, seed):
    trained = model(heads, seed)
    result = trained.fit(method="solve")
    assert result.stopped == "solved"
    assert result.gap < 1e-18
    labels = trained.dictionary.prompts(5, OUT_OF_DOMAIN).shown
    torch.testing.assert_close(
        trained.predict(labels), RidgeLimit(trained.dictionary).predict(labels), rtol=0, atol=1e-7
    )


def test_solve_takes_the_weights_of_least_norm():
    trained = model()
    trained.fit()
    for k in range(12):
        C = trained.attention()[:, :, k].T
        wanted = torch.linalg.pinv(C) @ trained.limit.A[:, k]
        torch.testing.assert_close(trained.w[:, k], wanted, rtol=1e-6, atol=1e-6)


def test_solve_refuses_too_few_heads():
    with pytest.raises(AttangentError, match="at least N=6 heads, this model has 5"):
        model(heads=5).fit("solve")
