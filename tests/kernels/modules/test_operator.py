import copy

import numpy as np
import pytest
import torch
from torch import nn

from attangent import AttangentError, predict_training
from attangent.adapters import NTKConfig, attach
from attangent.kernels import largest_eigenvalue, tangent_kernel, train_linearised, unit_data
from attangent.kernels.modules import tangent_operator
from tests.adapters.models import inputs, tiny


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def points(count=6):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("batch", [64, 4, 1])
def test_products_are_those_of_the_dense_kernel(batch):
    module, x = network(), points()
    dense = tangent_kernel(module, x).numpy()
    operator = tangent_operator(module, x, batch=batch)
    np.testing.assert_allclose(operator @ np.eye(18), dense, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(operator.rmatvec(np.arange(18.0)), dense.T @ np.arange(18.0), rtol=1e-10)


def test_some_parameters_and_one_output():
    module, x = network(), points()
    chosen = {"params": "2.*", "output": lambda out: out[:, :1]}
    dense = tangent_kernel(module, x, **chosen).numpy()
    np.testing.assert_allclose(tangent_operator(module, x, **chosen) @ np.eye(6), dense, rtol=1e-10)


def test_a_transformer_with_a_prefix():
    model, batch = tiny("gpt2"), inputs("gpt2")
    attach(model, NTKConfig(share=0.5, size=4), calibration=batch)
    last = {"output": lambda out: out.logits[:, -1, :3]}
    dense = tangent_kernel(copy.deepcopy(model).eval(), batch, **last).double().numpy()
    product = tangent_operator(model.eval(), batch, **last, batch=1) @ np.eye(len(dense))
    np.testing.assert_allclose(product, dense, rtol=1e-4, atol=1e-6 * abs(dense).max())


def test_the_spectrum_comes_by_lanczos():
    module, x = network(), points()
    exact = torch.linalg.eigvalsh(tangent_kernel(module, x))[-1].item()
    assert largest_eigenvalue(tangent_operator(module, x)) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"x": torch.zeros(0, 5)}, "points"),
        ({"batch": 0}, "batch is 0"),
        ({"params": "nothing"}, "matches no parameter"),
    ],
)
def test_bad_input(given, match):
    with pytest.raises(AttangentError, match=match):
        tangent_operator(network(), **{"x": points(), **given})


def test_dropout_in_training_mode_is_refused():
    with pytest.raises(AttangentError, match="training mode"):
        tangent_operator(nn.Sequential(nn.Linear(5, 2), nn.Dropout(0.1)), points().float())


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
