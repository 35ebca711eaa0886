"""The forward process: marginals, times and the relation between posterior mean and score."""

import math

import pytest
import torch

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p2_softmax.diffusion import ForwardProcess, LinearSchedule

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
    for spacing in ("log", "uniform"):
        times = PROCESS.grid(10, spacing)
        assert len(times) == 11
        assert times[0].item() == pytest.approx(3.0)
        assert times[-1].item() == pytest.approx(0.01)
        assert (times.diff() < 0).all()
    ratios = PROCESS.grid(10)[1:] / PROCESS.grid(10)[:-1]
    torch.testing.assert_close(ratios, ratios[:1].expand(10))


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


def test_bad_points_are_refused():
    rng = generator(0, "test")
    with pytest.raises(AttangentError, match=r"x0 has shape \(3,\)"):
        PROCESS.noised(torch.zeros(3), 1.0, rng)
    with pytest.raises(AttangentError, match="t has shape"):
        PROCESS.noised(torch.zeros(3, 2), torch.ones(2), rng)
    with pytest.raises(AttangentError, match="goes down to -1"):
        PROCESS.noised(torch.zeros(3, 2), -1.0, rng)
    with pytest.raises(AttangentError, match="spacing is 'cubic'"):
        PROCESS.grid(3, "cubic")  # type: ignore[arg-type]
