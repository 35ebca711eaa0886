"""Samplers: what they draw from exact scores, and that their error falls with the steps."""

import io
import sys

import pytest
import torch

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion import (
    ExactScore,
    ForwardProcess,
    GaussianMixture,
    LinearSchedule,
    Rings,
    mode_coverage,
    sample,
    sample_quality,
)
from tests.papers.p2_softmax.diffusion.examples import PROCESS, TARGET

EXACT = ExactScore(PROCESS, TARGET)


def truth(target, process, n, seed=0):
    rng = generator(seed, "truth")
    return process.noised(target.draw(n, rng), process.T0, rng)


@pytest.mark.parametrize("method", ["sde", "ode"])
@pytest.mark.parametrize("target", [TARGET, Rings((0.7,), 0.1)], ids=["modes", "ring"])
def test_samples_of_the_exact_score_reach_the_floor(method, target):
    found = sample(ExactScore(PROCESS, target), PROCESS, 8000, method, steps=60, seed=1, quiet=True)
    assert sample_quality(found, truth(target, PROCESS, 8000)).ratio < 1.2


@pytest.mark.parametrize("method", ["sde", "ode"])
def test_moments_of_a_gaussian(method):
    target, process = GaussianMixture.gaussian([1.0, -2.0], 0.5), ForwardProcess(T=8.0, T0=0.01)
    found = sample(ExactScore(process, target), process, 10_000, method, steps=150, quiet=True)
    torch.testing.assert_close(found.mean(dim=0), torch.tensor([0.995, -1.99]).double(), rtol=0, atol=0.05)
    assert found.var(dim=0).mean().item() == pytest.approx(0.25 * 0.99 + 0.01, rel=0.06)


def test_heun_is_of_second_order():
    ends = [sample(EXACT, PROCESS, 100, "ode", steps=k, quiet=True) for k in (20, 40, 320)]
    coarse, fine = ((end - ends[-1]).norm() for end in ends[:2])
    assert 0.15 < fine / coarse < 0.35


def test_euler_maruyama_errs_less_with_more_steps():
    target = truth(TARGET, PROCESS, 8000)
    few, many = (sample(EXACT, PROCESS, 8000, "sde", steps=k, quiet=True) for k in (5, 40))
    assert sample_quality(few, target).ratio > 1.5 > 1.2 > sample_quality(many, target).ratio


def test_any_schedule_is_walked_as_g_equal_to_one():
    """The same integrals of g give the same samples: T and T0 are chosen to match those of g = 1."""
    fast = ForwardProcess(LinearSchedule(2.0, 2.0, 10.0), T=2.5, T0=0.01)
    slow = sample(EXACT, PROCESS, 50, "ode", steps=30, quiet=True)
    quick = sample(ExactScore(fast, TARGET), fast, 50, "ode", steps=30, quiet=True)
    torch.testing.assert_close(slow, quick, rtol=1e-8, atol=1e-8)


def test_rising_schedules_reach_the_data_too():
    process = ForwardProcess(LinearSchedule(0.2, 1.8, 5.0))
    found = sample(ExactScore(process, TARGET), process, 4000, "sde", steps=80, quiet=True)
    coverage = mode_coverage(found, TARGET.at(process, process.T0))
    assert coverage.covered == 4
    assert coverage.strays < 0.03


def test_batches_cut_the_same_start():
    whole = sample(EXACT, PROCESS, 100, "ode", steps=5, quiet=True)
    parts = sample(EXACT, PROCESS, 100, "ode", steps=5, batch=33, quiet=True)
    torch.testing.assert_close(whole, parts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "euler"}, "method is 'euler'"),
        ({"n": 0}, "n is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"spacing": "cubic"}, "spacing is 'cubic'"),
    ],
)
def test_bad_options_are_refused(changes, message):
    options = {"n": 4, "steps": 2, **changes}
    with pytest.raises(AttangentError, match=message):
        sample(EXACT, PROCESS, options.pop("n"), options.pop("method", "sde"), **options)


def test_a_terminal_sees_a_bar_and_quiet_does_not(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for quiet, shown in ((False, True), (True, False)):
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        sample(EXACT, PROCESS, 4, steps=3, quiet=quiet)
        assert ("sampling" in screen.getvalue()) is shown
