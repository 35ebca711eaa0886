import pytest
import torch
from torch import nn

from attangent import AttangentError, predict_training, tangent_kernel
from attangent.kernels import train_linearised, unit_data

X, Y = unit_data(6, 3, 2, seed=0)
NEW, _ = unit_data(4, 3, 2, seed=1)


def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2)).double()


@pytest.mark.parametrize("params", [None, "0.*"])
def test_linearised_training_is_what_the_kernel_predicts(params):
    net = module()
    K = tangent_kernel(net, X, params=params)
    rate = 0.5 / torch.linalg.eigvalsh(K)[-1].item()
    run = train_linearised(net, X, Y, rate, 60, params=params)
    prediction = predict_training(K, net(X).detach() - Y, rate)
    torch.testing.assert_close(run.loss, prediction.loss(range(61)), rtol=1e-9, atol=0)
    answers = prediction.outputs(tangent_kernel(net, NEW, X, params=params), 60, net(NEW).detach())
    torch.testing.assert_close(run.outputs(NEW), answers, rtol=1e-9, atol=1e-12)


def test_short_training_of_the_module_itself_follows_its_tangent():
    net = module()
    rate = 1e-4
    run = train_linearised(net, X, Y, rate, 5)
    for _ in range(5):
        loss = 0.5 * (net(X) - Y).square().sum()
        gradients = torch.autograd.grad(loss, [*net.parameters()])
        for parameter, gradient in zip(net.parameters(), gradients, strict=True):
            parameter.data -= rate * gradient
    torch.testing.assert_close(net(NEW).detach(), run.outputs(NEW), rtol=1e-5, atol=1e-6)


def test_no_steps_change_nothing():
    net = module()
    run = train_linearised(net, X, Y, 0.1, 0)
    torch.testing.assert_close(run.outputs(NEW), net(NEW).detach())
    assert len(run.loss) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y[:2]}, "Y has 2 rows but X has 6"),
        ({"y": Y[:, :1]}, "Y has shape"),
        ({"rate": -1.0}, "rate is -1.0"),
        ({"steps": -1}, "steps is -1"),
        ({"steps": 2**31}, "steps is 2,147,483,648, expected at most"),
        ({"x": X[:0]}, "0"),
        ({"params": "nothing"}, "matches no parameter"),
    ],
)
def test_bad_requests_are_refused(change, message):
    with pytest.raises(AttangentError, match=message):
        train_linearised(**({"module": module(), "x": X, "y": Y, "rate": 0.1, "steps": 2} | change))
