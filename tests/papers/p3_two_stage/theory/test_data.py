"""The prompts of Section 3.1."""

import math

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p3_two_stage.theory.data import TwoStageData


def test_p_parts_have_their_margin_and_their_law():
    data = TwoStageData(d=5, L=9, p=0.3)
    prompts = data.sample(4000, seed=0)
    along = prompts.x1 @ data.w_star
    assert (along * prompts.y >= data.margin).all()
    across = prompts.x1 - along[..., None] * data.w_star
    assert across.square().sum(-1).mean().item() == pytest.approx(4 / 5, rel=0.02)
    # |<w*, e>| of a Gaussian e with variance 1/d is half normal
    expected = data.margin + math.sqrt(2 / (math.pi * 5))
    assert (along * prompts.y).mean().item() == pytest.approx(expected, rel=0.02)
    assert (prompts.y > 0).double().mean().item() == pytest.approx(0.3, abs=0.01)


def test_q_parts_are_the_three_prototypes_with_their_labels():
    data = TwoStageData(d=4, L=7, u=3.0, r=0.5)
    prompts = data.sample(500, seed=1)
    assert data.z.norm().item() == pytest.approx(3.0)
    assert data.zeta.norm().item() == pytest.approx(0.5)
    assert abs(data.z @ data.zeta) < 1e-12
    away = (prompts.x2 - data.z).norm(dim=-1)
    torch.testing.assert_close(away, 0.5 * (prompts.y < 0).double())
    plus = (prompts.kinds == 1).double().mean() / (prompts.y < 0).double().mean()
    assert plus.item() == pytest.approx(0.5, abs=0.05)


def test_gathered_q_parts_follow_the_same_law_as_drawn_tokens():
    data = TwoStageData(d=4, L=30, p=0.4)
    slow = data.sample(20_000, seed=2)
    fast = data.sample_q(20_000, seed=2)
    for moment in (lambda c: c.mean(0), lambda c: c.T.cov()):
        torch.testing.assert_close(moment(slow.counts), moment(fast.counts), rtol=0.04, atol=0.1)
    assert (fast.counts.sum(-1) == 29).all()
    torch.testing.assert_close(fast.answers.mean(), slow.answers.mean(), rtol=0.1, atol=0.02)
    assert ((fast.answers > 0) == (fast.kinds == 0)).all()


def test_shares_of_prompts_with_one_part():
    data = TwoStageData(d=4, L=5, p_only=0.3, q_only=0.5)
    prompts = data.sample(4000, seed=0)
    without_q = (prompts.x2 == 0).all(-1).all(-1)
    without_p = (prompts.x1 == 0).all(-1).all(-1)
    assert without_q.double().mean().item() == pytest.approx(0.3, abs=0.03)
    assert without_p.double().mean().item() == pytest.approx(0.5, abs=0.03)
    assert not (without_p & without_q).any()
    assert torch.equal(prompts.shows_p == 0, without_p)


def test_runs_differ_and_seeds_repeat():
    data = TwoStageData(d=4, L=5)
    first, again = data.sample(3, runs=2, seed=7), data.sample(3, runs=2, seed=7)
    assert torch.equal(first.x1, again.x1)
    assert not torch.equal(first.x1[0], first.x1[1])


def test_axes_frame():
    data = TwoStageData(d=4, L=5, frame="axes", u=2.0)
    assert data.w_star.tolist() == [1, 0, 0, 0]
    assert data.z.tolist() == [2, 0, 0, 0]
    assert data.zeta.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"d": 1}, "d is 1, expected a whole number of at least 2"),
        ({"L": 1}, "L is 1"),
        ({"p": 1.5}, "p is 1.5, expected a number from 0 to 1"),
        ({"u": 0.0}, "u is 0.0, expected a finite number above 0"),
        ({"r": math.nan}, "r is nan"),
        ({"p_only": 0.6, "q_only": 0.6}, "expected at most 1"),
        ({"frame": "tilted"}, "expected one of random, axes"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(AttangentError, match=message):
        TwoStageData(**({"d": 4, "L": 5} | given))


def test_sample_refuses_no_prompts():
    with pytest.raises(AttangentError, match="n is 0"):
        TwoStageData(d=4, L=5).sample(0)
    with pytest.raises(AttangentError, match="runs is -1"):
        TwoStageData(d=4, L=5).sample_q(3, runs=-1)
