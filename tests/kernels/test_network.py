"""SoftmaxNetwork: the conformance suite and what is its own."""

import pytest
import torch

from attangent.kernels import SoftmaxNetwork, log_gap, predict_training, unit_data
from tests.kernels.conformance import NetworkConformance


class TestSoftmaxNetwork(NetworkConformance):
    def make(self, d_in, d_out, m, **settings):
        return SoftmaxNetwork(d_in, d_out, m, **settings)

    def outputs(self, network, W, X):
        return network.m * torch.softmax(X @ W, dim=1) @ network.a.T


def half_rate(network, X):
    return 0.5 / (network.m * torch.linalg.eigvalsh(network.kernel(X))[-1].item())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("m", "bar"), [(1024, 2e-3), (4096, 2e-4)])
def test_training_follows_the_kernel_at_the_start(m, bar, seed):
    X, Y = unit_data(8, 4, 4, seed)
    network = SoftmaxNetwork(4, 4, m, sigma=0.5, seed=seed)
    rate = half_rate(network, X)
    run = network.descend(X, Y, rate, 300)
    predicted = predict_training(network.kernel(X), network.forward(X) - Y, rate, width=m)
    assert log_gap(run.loss, predicted.loss(range(301))) < bar


def test_answers_at_new_points_follow_the_kernel():
    X, Y = unit_data(8, 4, 4, seed=0)
    new, _ = unit_data(5, 4, 4, seed=1)
    network = SoftmaxNetwork(4, 4, 4096, sigma=0.5)
    rate = half_rate(network, X)
    trained = network.descend(X, Y, rate, 300).final.forward(new)
    predicted = predict_training(network.kernel(X), network.forward(X) - Y, rate, width=network.m)
    answers = predicted.outputs(network.kernel(new, X), 300, network.forward(new))
    assert (trained - answers).norm() < 1e-3 * trained.norm()


def test_the_kernel_says_which_rate_is_too_large():
    X, Y = unit_data(6, 3, 3, seed=0)
    network = SoftmaxNetwork(3, 3, 4096, sigma=0.5)
    prediction = predict_training(network.kernel(X), -Y, 1e-9, width=network.m)
    just_below, just_above = (
        network.descend(X, Y, part * prediction.largest_stable_rate / 2, 400).loss for part in (1.99, 2.01)
    )
    assert just_below[-1] < just_below[0]
    assert (just_below[1:] <= just_below[:-1]).all()
    assert just_above[-1] > just_above[200]


def test_a_common_shift_of_all_weights_changes_nothing():
    network = SoftmaxNetwork(3, 2, 64, init="independent")
    X, _ = unit_data(4, 3, 2, seed=0)
    shifted = network.with_weights(network.W + torch.tensor([[1.0], [-2.0], [0.5]]))
    torch.testing.assert_close(shifted.kernel(X), network.kernel(X), rtol=1e-12, atol=1e-12)


def test_features_are_the_factors_of_the_points():
    network = SoftmaxNetwork(3, 2, 10, init="independent")
    X, _ = unit_data(4, 3, 2, seed=0)
    J = torch.func.jacrev(
        lambda W: network.with_weights(network.W).m * torch.softmax(X @ W, 1) @ network.a.T
    )(network.W)
    G = network.features(X).view(2, 4, 10)
    torch.testing.assert_close(torch.einsum("lir,ip->ilpr", G, X), J)
    assert torch.equal(network.probabilities(X), torch.softmax(X @ network.W, dim=1))
