"""One suite for every estimator: fit, posterior_mean, score."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p2_softmax.diffusion import (
    AdamDescent,
    Descent,
    ExactScore,
    GaussianMixture,
    KernelScore,
    MLPScore,
    NaturalInputs,
    PaperInputs,
    draw_data,
    label_loss,
    relative_error,
    score_error,
)
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, TARGET, TEST, VALIDATION, softmax

MAKERS = {
    "exact": lambda: ExactScore(PROCESS, TARGET),
    "softmax": lambda: softmax(inputs=NaturalInputs()),
    "softmax, Adam": lambda: softmax(trainer=AdamDescent(60, 1.0), inputs=NaturalInputs()),
    "kernel": lambda: KernelScore(PROCESS, 64, inputs=NaturalInputs(), steps=40),
    "wide kernel": lambda: KernelScore(PROCESS, math.inf, inputs=NaturalInputs(), steps=40),
    "mlp": lambda: MLPScore(PROCESS, 32, NaturalInputs(), AdamDescent(120, 0.02)),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS, scope="module")
def estimator(request):
    return request.param().fit(DATA, VALIDATION)


def test_it_learns(estimator):
    assert relative_error(estimator, TARGET, TEST) < 0.2


def test_score_and_posterior_mean_belong_together(estimator):
    mean, score = estimator.posterior_mean(TEST.t, TEST.x), estimator.score(TEST.t, TEST.x)
    assert mean.dtype == torch.float64
    t = TEST.t[:, None]
    expected = (torch.exp(-t / 2) * mean - TEST.x) / (1 - torch.exp(-t))
    torch.testing.assert_close(score, expected, rtol=1e-9, atol=1e-9)


def test_one_time_serves_all_points(estimator):
    x = TEST.x[:5]
    torch.testing.assert_close(estimator.score(0.5, x), estimator.score(torch.full((5,), 0.5), x))


def test_wrong_points_are_refused(estimator):
    with pytest.raises(AttangentError, match=r"x has shape \(4, 3\); expected \(points, 2\)"):
        estimator.score(0.5, torch.zeros(4, 3))


@pytest.mark.parametrize("make", [maker for name, maker in MAKERS.items() if name != "exact"])
def test_before_fit_it_says_so(make):
    with pytest.raises(AttangentError, match="not fitted"):
        make().score(0.5, torch.zeros(4, 2))
    with pytest.raises(AttangentError, match="not fitted"):
        make().at(3)


def test_the_exact_score_has_no_steps():
    with pytest.raises(AttangentError, match="not trained in steps"):
        ExactScore(PROCESS, TARGET).at(3)


def test_the_exact_score_has_no_error():
    exact = ExactScore(PROCESS, TARGET)
    assert relative_error(exact, TARGET, TEST) == 0
    assert score_error(exact, TARGET, TEST) == 0


def test_no_estimate_beats_the_noise_of_the_labels():
    """E|F - y|^2 = E|F - F*|^2 + E|F* - y|^2: the two errors differ by a constant."""
    data = draw_data(TARGET, PROCESS, 20_000, seed=9)
    exact, learned = ExactScore(PROCESS, TARGET), softmax().fit(DATA)
    true = TARGET.posterior_mean(PROCESS, data.t, data.x)
    error = (learned.posterior_mean(data.t, data.x) - true).square().sum(dim=1).mean().item()
    assert label_loss(learned, data) - label_loss(exact, data) == pytest.approx(error, rel=0.1)


def test_score_error_is_a_weighted_error_of_the_posterior_mean():
    learned = softmax().fit(DATA)
    gap = learned.posterior_mean(TEST.t, TEST.x) - TARGET.posterior_mean(PROCESS, TEST.t, TEST.x)
    weight = torch.exp(-TEST.t) / (1 - torch.exp(-TEST.t))
    expected = (weight * gap.square().sum(dim=1)).mean().item()
    assert score_error(learned, TARGET, TEST) == pytest.approx(expected)


def test_natural_inputs_help_unless_their_gain_is_high_and_the_target_linear():
    """What docs/diffusion.md says of the two input maps."""

    def error(target, inputs) -> float:
        data, test = draw_data(target, PROCESS, 400, seed=1), draw_data(target, PROCESS, 1000, seed=2)
        model = KernelScore(PROCESS, math.inf, inputs=inputs, steps=1000, rate=1.9)
        return relative_error(model.fit(data, draw_data(target, PROCESS, 400, seed=3)), target, test)

    wide = GaussianMixture.spherical([[0.0, 0.0]], 1.0)
    assert error(TARGET, NaturalInputs()) < 0.5 * error(TARGET, PaperInputs())
    assert error(wide, NaturalInputs(gain=3.0)) > error(wide, PaperInputs()) > error(wide, NaturalInputs())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Descent(steps=0), "steps is 0"),
        (lambda: Descent(rate=-1.0), "rate is"),
        (lambda: MLPScore(PROCESS, 0), "hidden is 0"),
        (lambda: KernelScore(PROCESS, 2.5), "m is 2.5"),
        (lambda: KernelScore(PROCESS, 64, steps=0), "steps is 0"),
        (lambda: softmax(m=33), "even number"),
        (lambda: softmax(sigma=0.0), "sigma is"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(AttangentError, match=message):
        make()


MAPS = {"paper": PaperInputs(), "natural": NaturalInputs()}


@pytest.mark.parametrize("inputs", MAPS.values(), ids=MAPS)
@given(t=st.floats(0.001, 50), x=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_inputs_lie_in_the_unit_ball(inputs, t, x):
    found = inputs(PROCESS, torch.tensor([t], dtype=torch.float64), torch.tensor([x], dtype=torch.float64))
    assert found.shape == (1, inputs.columns(3))
    assert found.norm() <= 1 + 1e-12
    assert found[0, 0] > 0  # the constant coordinate: without it the network answers 0 at 0


def test_paper_inputs_hold_time_and_place():
    found = PaperInputs(reach=2.0, constant=1.0, time=1.0)(PROCESS, DATA.t, DATA.x)
    near = DATA.x.norm(dim=1) < 2
    torch.testing.assert_close(found[near, 2:], DATA.x[near] / 2 / 3**0.5)
    assert found[:, 1].argmax() == DATA.t.argmax()


def test_natural_inputs_grow_as_the_noise_fades():
    x = torch.tensor([[0.3, 0.0]] * 2, dtype=torch.float64)
    late, early = NaturalInputs()(PROCESS, torch.tensor([4.0, 0.05], dtype=torch.float64), x)
    assert early[2] > 5 * late[2]


@pytest.mark.parametrize("make", [lambda: PaperInputs(reach=0.0), lambda: NaturalInputs(floor=-1.0)])
def test_bad_constants_are_refused(make):
    with pytest.raises(AttangentError, match="above 0"):
        make()
