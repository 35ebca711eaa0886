import copy

import numpy as np
import pytest
import torch
from torch import nn

from attangent import AttangentError
from attangent.adapters import NTKConfig, attach
from attangent.kernels import largest_eigenvalue, tangent_kernel
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
