"""ReLU and exp networks: the conformance suite."""

import math

import torch

from attangent.kernels import ExpNetwork, ReLUNetwork
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
