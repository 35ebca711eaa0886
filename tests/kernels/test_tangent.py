"""The factors of the output gradients, and what is made of them without the kernel."""

import pytest
import torch

from attangent.kernels import SoftmaxNetwork, solve, unit_data, vectorise
from attangent.kernels.operator import KernelOperator
from attangent.kernels.tangent import trace_kernel
from attangent.papers.p1_prefix.network import PrefixNetwork
from attangent.papers.p2_softmax.networks import ExpNetwork, ReLUNetwork
from attangent.papers.p5_forecasting.theory.attention_model import ScalarAttention
from tests.kernels.conformance import small_blocks

X, Y = unit_data(7, 3, 3, seed=0)
NETWORKS = [
    SoftmaxNetwork(3, 4, 150, init="independent"),
    PrefixNetwork(3, 150, init="independent"),
    ReLUNetwork(3, 2, 150, init="independent"),
    ExpNetwork(3, 2, 150, init="independent"),
    ScalarAttention(3, 150, init="independent"),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: type(network).__name__)
def test_the_trace_over_outputs_is_that_of_the_kernel(network):
    full = network.kernel(X).view(network.d_out, 7, network.d_out, 7)
    with small_blocks():
        traced = trace_kernel(network.tangent(X))
    torch.testing.assert_close(traced, torch.einsum("kikj->ij", full), rtol=1e-11, atol=1e-12)


def test_held_gates_are_the_same():
    tangent = NETWORKS[2].tangent(X)
    assert torch.equal(tangent.held().gate(slice(3, 9)), tangent.gate(slice(3, 9)))


class Counting(KernelOperator):
    products = 0

    def _matvec(self, x):
        self.products += 1
        return super()._matvec(x)


def test_the_preconditioner_saves_products(monkeypatch):
    points, targets = unit_data(60, 6, 6, seed=0)
    tangent = SoftmaxNetwork(6, 6, 4096, sigma=0.5).tangent(points)
    needed = []
    for help_ in (True, False):
        operator = Counting(tangent, tangent, 2**30)
        if not help_:
            monkeypatch.setattr(Counting, "preconditioner", lambda self, ridge: None)
        solve(operator, vectorise(targets), tolerance=1e-8)
        needed.append(operator.products)
    assert needed[0] < needed[1] / 3


def test_there_is_no_preconditioner_where_it_does_not_fit_or_make_sense():
    tangent, other = NETWORKS[0].tangent(X), NETWORKS[0].tangent(X[:3])
    assert KernelOperator(tangent, other, 2**30).preconditioner(0.0) is None
    operator = KernelOperator(tangent, tangent, 2**30)
    assert operator.preconditioner(0.0) is not None
    operator._room = 100
    assert operator.preconditioner(0.0) is None
