"""The four terms against their definitions, and what is true of them whatever the numbers."""

from itertools import pairwise

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p2_softmax.diffusion import (
    AdamDescent,
    KernelScore,
    draw_data,
    error_terms,
    hilbert_function,
)
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, TARGET, TEST, softmax

MODEL = softmax(steps=40).fit(DATA)
F_H = hilbert_function(MODEL, TARGET, draw_data(TARGET, PROCESS, 100, seed=8), 30)
STEPS = [0, 1, 10, 40]


@pytest.fixture(scope="module")
def terms():
    kept = sorted(MODEL.history.snapshots)
    return error_terms(MODEL, TARGET, DATA, TEST, [step for step in STEPS if step in kept], F_H)


def test_terms_by_their_definitions(terms):
    last = terms[-1]
    assert last.step == 40
    noise = DATA.y - TARGET.posterior_mean(PROCESS, DATA.t, DATA.x)
    pseudo = DATA.with_labels(F_H.posterior_mean(DATA.t, DATA.x) + noise)
    kernel = KernelScore.like(MODEL, 1.5, 40)
    chain = [
        MODEL.posterior_mean(TEST.t, TEST.x),
        kernel.fit(DATA).posterior_mean(TEST.t, TEST.x),
        KernelScore.like(MODEL, 1.5, 40).fit(pseudo).posterior_mean(TEST.t, TEST.x),
        F_H.posterior_mean(TEST.t, TEST.x),
        TARGET.posterior_mean(PROCESS, TEST.t, TEST.x),
    ]
    means = [(a - b).square().sum(dim=1).mean().item() for a, b in pairwise(chain)]
    assert [term.mean for term in last.terms.values()] == pytest.approx(means, rel=1e-6)
    assert last.total.mean == pytest.approx((chain[0] - chain[-1]).square().sum(dim=1).mean().item())
    assert last.excess.mean == pytest.approx(last.total.mean - sum(means))
    assert last.printed_bound == pytest.approx(sum(means))


def test_at_step_zero_only_two_terms_are_left(terms):
    first = terms[0]
    assert first.coupling.mean == pytest.approx(0, abs=1e-20)
    assert first.mismatch.mean == pytest.approx(0, abs=1e-20)
    reached = F_H.posterior_mean(TEST.t, TEST.x)
    assert first.stopping.mean == pytest.approx(reached.square().sum(dim=1).mean().item())
    assert first.total.mean == pytest.approx(first.scale)
    assert first.largest == "stopping"


def test_four_times_the_sum_always_bounds(terms):
    for found in terms:
        assert found.total.mean <= found.bound


def test_standard_errors_shrink_with_the_test_points(terms):
    more = draw_data(TARGET, PROCESS, 4 * len(TEST), seed=20)
    again = error_terms(MODEL, TARGET, DATA, more, [40], F_H)[0]
    assert again.total.error == pytest.approx(terms[-1].total.error / 2, rel=0.3)
    assert abs(again.total.mean - terms[-1].total.mean) < 4 * terms[-1].total.error


def test_mismatch_vanishes_where_the_labels_come_from_the_hilbert_space():
    """With F* = F_H the pseudo labels are the labels."""

    class Reached:
        d = 2
        draw = TARGET.draw
        log_density = TARGET.log_density

        def posterior_mean(self, process, t, x):
            return F_H.posterior_mean(t, x)

    found = error_terms(MODEL, Reached(), DATA, TEST, [40], F_H)[0]
    assert found.mismatch.mean < 1e-20
    assert found.approximation.mean == 0


def test_models_that_were_not_trained_by_descent_are_refused():
    with pytest.raises(AttangentError, match="train the model by Descent"):
        error_terms(softmax(trainer=AdamDescent(3)).fit(DATA), TARGET, DATA, TEST, [0], F_H)


def test_steps_that_were_not_kept_are_refused():
    with pytest.raises(AttangentError, match="step 39 is not a checkpoint"):
        error_terms(MODEL, TARGET, DATA, TEST, [39], F_H)


def test_a_longer_trained_reference_is_nearer_and_larger():
    points = draw_data(TARGET, PROCESS, 100, seed=8)
    short, long = (hilbert_function(MODEL, TARGET, points, steps) for steps in (3, 300))
    true = TARGET.posterior_mean(PROCESS, TEST.t, TEST.x)
    errors = [(f.posterior_mean(TEST.t, TEST.x) - true).square().sum() for f in (short, long)]
    assert errors[1] < errors[0]
    assert long.squared_norm > short.squared_norm
    torch.testing.assert_close(
        short.posterior_mean(TEST.t, TEST.x), long.at(3).posterior_mean(TEST.t, TEST.x)
    )
