import math

import pytest
import torch

from attangent import AttangentError
from attangent.kernels import SoftmaxNetwork, descend, unit_data
from attangent.papers.p2_softmax.networks import ExpNetwork

X, Y = unit_data(5, 3, 2, seed=0)


def network(m=64, **settings):
    return SoftmaxNetwork(3, 2, m, **({"sigma": 0.5, "init": "independent"} | settings))


def slow_descent(net, rate, steps):
    """The same by autograd."""
    W = net.W.clone().requires_grad_(True)
    losses = []
    for _ in range(steps + 1):
        loss = 0.5 * (net.m * torch.softmax(X @ W, dim=1) @ net.a.T - Y).square().sum()
        losses.append(loss.item())
        (gradient,) = torch.autograd.grad(loss, W)
        last, W = W.detach(), (W - rate * gradient).detach().requires_grad_(True)
    return torch.tensor(losses, dtype=torch.float64), last, gradient


def test_it_is_gradient_descent():
    net = network()
    losses, W, gradient = slow_descent(net, 1e-4, 20)
    run = descend(net, X, Y, 1e-4, 20)
    torch.testing.assert_close(run.loss, losses, rtol=1e-11, atol=0)
    torch.testing.assert_close(run.final.W, W, rtol=1e-11, atol=1e-13)
    assert run.movement[-1].item() == pytest.approx((W - net.W).norm(dim=0).max().item())
    assert run.gradient_norm[-1].item() == pytest.approx(gradient.norm(dim=0).max().item())
    assert run.movement[0] == 0
    assert not run.diverged
    assert run.steps == 20


def test_snapshots_and_drift_are_those_of_the_named_steps():
    net = network()
    run = descend(net, X, Y, 1e-4, 10, keep=[0, 4], drift_at=[0, 10])
    again = descend(net, X, Y, 1e-4, 4)
    assert set(run.snapshots) == {0, 4}
    assert torch.equal(run.snapshots[4].W, again.final.W)
    assert run.kernel_drift[0] == 0
    assert run.kernel_drift[10] == pytest.approx((run.final.kernel(X) - net.kernel(X)).norm().item())


def test_no_steps_is_the_start():
    run = descend(network(), X, Y, 1e-4, 0)
    assert run.steps == 0
    assert torch.equal(run.final.W, network().W)


def test_a_descent_that_leaves_the_numbers_is_cut_off_and_marked():
    run = descend(network(), X, Y, 1e308, 50)
    assert run.diverged
    assert run.steps < 50
    assert torch.isfinite(run.final.W).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0.0}, "rate is 0.0"),
        ({"rate": -1.0}, "rate is -1.0"),
        ({"rate": math.nan}, "rate is nan"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"rate": True}, "rate is True"),
        ({"steps": -1}, "steps is -1"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"keep": [11]}, "keep names step 11"),
        ({"drift_at": [-1]}, "drift_at names step -1"),
        ({"Y": Y[:3]}, "Y has 3 rows but X has 5"),
        ({"X": X[:, :2]}, "X has shape"),
    ],
)
def test_bad_requests_are_refused(change, message):
    request = {"X": X, "Y": Y, "rate": 1e-4, "steps": 10} | change
    with pytest.raises(AttangentError, match=message):
        descend(network(), **request)


def test_what_is_beyond_all_numbers_is_infinite_and_not_nan():
    network = ExpNetwork(3, 2, m=8)
    found = network.descend(torch.eye(3, dtype=torch.float64), torch.ones(3, 2), rate=1e300, steps=3)
    assert found.diverged
    assert not any(torch.isnan(column).any() for column in (found.loss, found.movement, found.gradient_norm))
