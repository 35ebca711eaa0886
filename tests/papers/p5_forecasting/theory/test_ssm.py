import math

import pytest
import torch

from attangent import AttangentError
from attangent._core.random import generator
from attangent.papers.p5_forecasting.theory.ssm import (
    ResidualSSM,
    descend_residual_linear,
    fit_residual_linear,
    residual_linear,
    residual_weights,
)


@pytest.mark.parametrize("d", [2, 3, 8, 20])
def test_the_state_space_model_runs_through_its_features(d):
    ssm = ResidualSSM(d, seed=4)
    A, B, C = ssm.matrices()
    h = torch.randn(d, generator=generator(0, "h"), dtype=torch.float64)
    first, values = h, []
    for _ in range(d + 1):
        values.append((C @ h).item())
        h = A @ h + B * values[-1]
    assert values == pytest.approx((ssm.features() @ first).tolist(), abs=1e-9)
    assert values[-1] == pytest.approx(
        (residual_weights(d) @ torch.tensor(values[:-1], dtype=torch.float64)).item()
    )


@pytest.mark.parametrize("d", [2, 8, 16])
def test_direct_draws_against_rejection(d):
    ssm = ResidualSSM(d, sigma=0.0)
    x, y = ssm.sample(1_000_000 if d > 2 else 100_000, generator(0, "all"))
    kept = x[:, -1] * y < 0
    assert kept.double().mean().item() == pytest.approx(ssm.inconsistent_share, rel=0.05)
    direct, target = ssm.sample_inconsistent(int(kept.sum()), generator(1, "direct"))
    assert (direct[:, -1] * target < 0).all()
    for function in (lambda x, y: y.abs(), lambda x, y: x[:, -1].abs(), lambda x, y: (x[:, 0] * y).abs()):
        a, b = function(direct, target), function(x[kept], y[kept])
        error = math.sqrt(a.var().item() / len(a) + b.var().item() / len(b))
        assert abs(a.mean() - b.mean()).item() < 5 * error


@pytest.mark.parametrize("inconsistent", [False, True])
def test_exact_risks_against_many_draws(inconsistent):
    ssm = ResidualSSM(6, sigma=0.1)
    draw = ssm.sample_inconsistent if inconsistent else ssm.sample
    x, y = draw(400_000, generator(0, "risk"))
    risks = ssm.baseline_risks(inconsistent)
    last = x[:, -1]
    for name, answer in {"zero": 0 * y, "persistence": last, "residual linear": x @ ssm.c}.items():
        squares = (answer - y).square()
        error = squares.std().item() / math.sqrt(len(y))
        assert squares.mean().item() == pytest.approx(risks[name], abs=5 * error)
    assert risks["best linear"] <= min(risks.values())
    assert risks["residual linear"] == pytest.approx(0.01 * (1 + ssm.s2))


def test_residual_linear_by_both_ways():
    ssm = ResidualSSM(8, sigma=0.01)
    x, y = ssm.sample(500, generator(0, "fit"))
    solved, descended = fit_residual_linear(x, y), descend_residual_linear(x, y, 3000)
    torch.testing.assert_close(residual_linear(solved, x), residual_linear(descended, x), atol=1e-6, rtol=0)
    assert solved[:-1].tolist() == pytest.approx([1 / 56] * 7, abs=0.005)


def test_refusals():
    with pytest.raises(AttangentError, match="d is 1, expected a whole number of at least 2"):
        ResidualSSM(1)
    with pytest.raises(AttangentError, match="sigma is -1"):
        ResidualSSM(4, sigma=-1)
