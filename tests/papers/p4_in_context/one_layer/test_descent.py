"""Gradient descent: the printed step, and the rate above which it diverges."""

import pytest
import torch

from attangent.papers.p4_in_context.one_layer.descent import weight_rate_limit
from tests.icl.examples import model


def test_descent_follows_the_printed_step():
    trained = model()
    trained.w = torch.ones_like(trained.w)
    Q, w = trained.Q.clone(), trained.w.clone()
    dQ, dw = trained.gradient()
    result = trained.fit("gd", steps=1, rate_Q=0.3, rate_w=0.7)
    torch.testing.assert_close(trained.Q, Q - 0.3 * dQ)
    torch.testing.assert_close(trained.w, w - 0.7 * dw)
    assert result.gaps.shape == (2,)
    assert trained.gap() == pytest.approx(result.gap, rel=1e-12)


def test_practical_descent_falls_at_every_step():
    result = model().fit("gd", steps=300)
    assert (result.gaps.diff() < 0).all()
    assert result.gap < 0.05 * result.gaps[0]


def test_descent_diverges_above_the_limit_of_its_rate_and_says_so():
    above = model()
    limit = weight_rate_limit(above)
    assert above.fit("gd", steps=4000, rate_Q=1e-12, rate_w=1.1 * limit).stopped == "diverged"
    assert not model().fit("gd", steps=300, rate_Q=1e-12, rate_w=0.95 * limit).diverged


def test_stops_where_nothing_moves():
    result = model().fit("gd", steps=500, rate_Q=1e-14, rate_w=1e-14, patience=20)
    assert result.stopped == "stalled"
    assert result.steps[-1] == 20
