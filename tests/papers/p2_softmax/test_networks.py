"""ReLU and exp networks: the conformance suite; infinite-width kernels against wide networks."""

import math

import pytest
import torch

from attangent import AttangentError
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.papers.p1_prefix.network import PrefixNetwork, prefix_limit
from attangent.papers.p2_softmax.networks import (
    ExpNetwork,
    ReLUNetwork,
    exp_limit,
    relu_limit,
    softmax_limit,
)
from tests.kernels.conformance import NetworkConformance


class TestReLUNetwork(NetworkConformance):
    def make(self, d_in, d_out, m, **settings):
        return ReLUNetwork(d_in, d_out, m, **settings)

    def outputs(self, network, W, X):
        return torch.relu(X @ W) @ network.a.T / math.sqrt(network.m)


class TestExpNetwork(NetworkConformance):
    reaches = (1e-3, 1.0, 10.0)

    def make(self, d_in, d_out, m, **settings):
        return ExpNetwork(d_in, d_out, m, **settings)

    def outputs(self, network, W, X):
        return torch.exp(X @ W) @ network.a.T / math.sqrt(network.m)


def test_a_rate_that_overflows_ends_the_descent():
    network = ExpNetwork(1, 1, 4, init="independent")
    run = network.descend(torch.ones(1, 1).double(), torch.ones(1, 1).double(), 1e6, 50)
    assert run.diverged
    assert run.steps < 50


X, _ = unit_data(4, 3, 1, seed=0)
X2, _ = unit_data(3, 3, 1, seed=1)
SIGMA = 0.5


def error(m, finite, limit):
    """The relative distance of networks of width m from the limit, averaged over a few."""
    mean = torch.stack([finite(m, seed) for seed in range(8)]).mean(dim=0)
    return ((mean - limit).norm() / limit.norm()).item()


LIMITS = {
    "softmax": (
        lambda m, s: SoftmaxNetwork(3, 2, m, SIGMA, seed=s),
        lambda *x: softmax_limit(*x, 2, SIGMA),
        {},
    ),
    "relu": (lambda m, s: ReLUNetwork(3, 2, m, SIGMA, seed=s), lambda *x: relu_limit(*x, 2, SIGMA), {}),
    "exp": (lambda m, s: ExpNetwork(3, 2, m, SIGMA, seed=s), lambda *x: exp_limit(*x, 2, SIGMA), {}),
    "exact": (lambda m, s: PrefixNetwork(3, m, SIGMA, seed=s), lambda *x: prefix_limit(*x, SIGMA), {}),
    "paper": (
        lambda m, s: PrefixNetwork(3, m, SIGMA, seed=s),
        lambda *x: prefix_limit(*x, SIGMA, kind="paper"),
        {"kind": "paper"},
    ),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("points", [(X, None), (X, X2)])
def test_wide_networks_come_to_the_limit(name, points):
    make, limit, options = LIMITS[name]

    def finite(m, seed):
        return make(m, seed).kernel(*points, **options)

    narrow, wide = error(256, finite, limit(*points)), error(65536, finite, limit(*points))
    assert wide < 0.02
    assert wide < narrow / 4


@pytest.mark.parametrize("limit", [softmax_limit, relu_limit, exp_limit])
def test_outputs_do_not_mix(limit):
    kernel = limit(X, None, 2)
    assert kernel[:4, 4:].abs().max() == 0
    assert torch.equal(kernel[:4, :4], kernel[4:, 4:])


@pytest.mark.parametrize("kind", ["exact", "paper"])
def test_limits_are_positive_semi_definite(kind):
    eigenvalues = torch.linalg.eigvalsh(prefix_limit(X, sigma=SIGMA, kind=kind))
    assert eigenvalues[0] > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prefix_limit(X, kind="printed"), "kind is 'printed'"),
        (lambda: softmax_limit(X, X2[:, :2]), "X2 has shape"),
        (lambda: exp_limit(X, sigma=0.0), "sigma is 0.0"),
        (lambda: relu_limit(X, d_out=0), "d_out is 0"),
        (lambda: relu_limit(X.long()), "floating point"),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises(AttangentError, match=message):
        call()
