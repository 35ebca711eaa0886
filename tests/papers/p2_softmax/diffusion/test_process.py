"""The forward process: schedules, marginals, times, and the relation between posterior mean and score."""

import math

import pytest
import torch
from scipy.integrate import quad

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion import (
    ConstantSchedule,
    ForwardProcess,
    LinearSchedule,
)

TIMES = torch.tensor([0.0, 0.02, 0.7, 2.5, 4.999, 5.0], dtype=torch.float64)


SCHEDULES = {
    "constant": ConstantSchedule(1.7),
    "linear": LinearSchedule(0.1, 3.0, 4.0),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_integral_is_that_of_g(schedule):
    def g(t: float) -> float:
        return schedule.g(torch.tensor(t, dtype=torch.float64)).item()

    reference = [quad(g, 0, t.item(), points=[4.0], limit=200)[0] for t in TIMES]
    torch.testing.assert_close(
        schedule.integral(TIMES), torch.tensor(reference, dtype=torch.float64), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConstantSchedule(0.0),
        lambda: LinearSchedule(1.0, -1.0, 5.0),
    ],
)
def test_schedules_that_are_not_positive_are_refused(make):
    with pytest.raises(AttangentError, match=r"above 0"):
        make()


PROCESS = ForwardProcess(LinearSchedule(0.2, 2.0, 3.0), T=3.0, T0=0.01)


def test_marginals_of_the_simulated_process():
    """Euler-Maruyama on Eq. (3) with many small steps, against alpha and 1 - alpha^2."""
    rng, steps = generator(0, "test"), 200
    x = torch.full((10_000,), 1.5, dtype=torch.float64)
    h = 2.0 / steps
    for i in range(steps):
        g = PROCESS.schedule.g(torch.tensor((i + 0.5) * h, dtype=torch.float64))
        x = x - 0.5 * g * x * h + (g * h).sqrt() * torch.randn(x.shape, generator=rng, dtype=x.dtype)
    t = torch.tensor(2.0, dtype=torch.float64)
    assert x.mean() == pytest.approx(1.5 * PROCESS.alpha(t).item(), abs=0.03)
    assert x.var() == pytest.approx(PROCESS.variance(t).item(), rel=0.03)


def test_noised_points_have_the_marginals():
    x0 = torch.tensor([[0.5, -1.0]], dtype=torch.float64).expand(50_000, 2)
    x = PROCESS.noised(x0, 0.8, generator(1, "test"))
    t = torch.tensor(0.8, dtype=torch.float64)
    torch.testing.assert_close(x.mean(dim=0), PROCESS.alpha(t) * x0[0], rtol=0, atol=0.02)
    torch.testing.assert_close(x.var(dim=0), PROCESS.variance(t).expand(2), rtol=0.03, atol=0)


def test_variance_is_exact_for_tiny_times():
    process = ForwardProcess(T0=1e-14)
    t = torch.tensor(1e-12, dtype=torch.float64)
    assert process.variance(t).item() == pytest.approx(1e-12, rel=1e-10)


def test_grids_run_from_T_to_T0():
    times = PROCESS.grid(10)
    assert len(times) == 11
    assert times[0].item() == pytest.approx(3.0)
    assert times[-1].item() == pytest.approx(0.01)
    ratios = times[1:] / times[:-1]
    torch.testing.assert_close(ratios, ratios[:1].expand(10))
    assert (ratios < 1).all()


def test_log_uniform_times_are_uniform_in_the_logarithm():
    times = PROCESS.draw_times(20_000, generator(0, "test"))
    share = (times / 0.01).log() / math.log(300)
    assert share.mean() == pytest.approx(0.5, abs=0.01)
    assert share.var() == pytest.approx(1 / 12, abs=0.003)
    uniform = PROCESS.draw_times(20_000, generator(0, "test"), "uniform")
    assert uniform.mean() == pytest.approx(1.505, abs=0.03)


@pytest.mark.parametrize("changes", [{"T": 0.0}, {"T0": -1.0}, {"T": 1.0, "T0": 1.0}])
def test_bad_times_are_refused(changes):
    with pytest.raises(AttangentError, match=r"T0? is"):
        ForwardProcess(**changes)
