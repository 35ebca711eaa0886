"""PrefixNetwork: the conformance suite, and the kernel of P1 Definition G.1 beside the exact one."""

import math

import pytest
import torch

from attangent import AttangentError
from attangent.kernels import log_gap, predict_training, unit_data
from attangent.papers.p1_prefix.network import PrefixNetwork, concentration_bound, prefix_guarantee
from tests.kernels.conformance import NetworkConformance


class TestPrefixNetwork(NetworkConformance):
    def make(self, d_in, d_out, m, **settings):
        return PrefixNetwork(d_in, m, **settings)

    def outputs(self, network, W, X):
        return network.m * torch.softmax(X @ W, dim=1) @ (W * network.a).T


def printed_kernel(network, X, X2):
    """Definition G.1 entry by entry."""
    m, d = network.W.shape[1], len(network.W)
    beta = network.W * network.a
    S, S2 = torch.softmax(X @ network.W, dim=1), torch.softmax(X2 @ network.W, dim=1)
    H = torch.zeros(d, len(X), d, len(X2), dtype=torch.float64)
    for r in range(m):
        v = beta[:, r, None] - beta  # row k is v_{k,r}
        one, two = (v @ S.T) * m * S[:, r], (v @ S2.T) * m * S2[:, r]  # (k, i), (k, j)
        H += torch.einsum("ki,lj,ij->kilj", one, two, X @ X2.T) / m
    return H.reshape(d * len(X), -1)


@pytest.mark.parametrize("method", ["gemm", "syrk", "pairs"])
def test_paper_kernel_is_the_printed_one(method):
    network = PrefixNetwork(3, 20, init="independent")
    X, _ = unit_data(4, 3, 3, seed=0)
    expected = printed_kernel(network, X, X)
    torch.testing.assert_close(
        network.kernel(X, kind="paper", method=method), expected, rtol=1e-11, atol=1e-12
    )


def test_paper_kernel_between_points():
    network = PrefixNetwork(3, 20, init="independent")
    X, _ = unit_data(4, 3, 3, seed=0)
    expected = printed_kernel(network, X, X[:2])
    for method in ("gemm", "pairs"):
        torch.testing.assert_close(
            network.kernel(X, X[:2], kind="paper", method=method), expected, rtol=1e-11, atol=1e-12
        )
    operator = network.kernel_operator(X, X[:2], kind="paper")
    torch.testing.assert_close(torch.as_tensor(operator @ torch.eye(6).double().numpy()), expected)


def test_paper_kernel_is_not_the_gram_matrix_of_the_gradients():
    network = PrefixNetwork(4, 4096, sigma=0.5)
    X, _ = unit_data(6, 4, 4, seed=0)
    exact, paper = network.kernel(X), network.kernel(X, kind="paper")
    assert (exact - paper).norm() > 0.5 * exact.norm()


def test_paper_kernel_of_the_zero_point_is_zero_but_its_gradient_is_not():
    network = PrefixNetwork(2, 64, init="independent")
    zero, target = torch.zeros(1, 2).double(), torch.ones(1, 2).double()
    assert network.kernel(zero, kind="paper").abs().max() == 0
    assert network.gradient(zero, target).abs().max() > 0
    assert network.kernel(zero)[0, 0] > 0


def test_the_exact_kernel_predicts_training_and_the_paper_kernel_does_not():
    X, Y = unit_data(6, 4, 4, seed=0)
    network = PrefixNetwork(4, 2048, sigma=0.5)
    exact, paper = network.kernel(X), network.kernel(X, kind="paper")
    rate = 0.5 / (network.m * torch.linalg.eigvalsh(exact)[-1].item())
    run = network.descend(X, Y, rate, 100)
    gaps = [
        log_gap(run.loss, predict_training(K, network.forward(X) - Y, rate, width=network.m).loss(range(101)))
        for K in (exact, paper)
    ]
    assert gaps[0] < 5e-3
    assert gaps[1] > 0.3


def test_beta_carries_the_signs():
    network = PrefixNetwork(3, 8)
    assert torch.equal(network.beta.abs(), network.W.abs())
    assert torch.equal(network.beta[:, ::2], -network.beta[:, 1::2])


X, Y = unit_data(4, 3, 3, seed=0)
NETWORK = PrefixNetwork(3, 512)


def test_numbers_are_those_of_the_definitions():
    given = prefix_guarantee(NETWORK, X, Y, delta=0.05)
    lam = torch.linalg.eigvalsh(NETWORK.kernel(X, kind="paper"))[0].item()
    B = 10 * math.sqrt(math.log(12 / 0.05))
    assert pytest.approx(B) == given.B
    assert given.lambda_min == pytest.approx(lam)
    width = lam**-2 * 12**2 * math.sqrt(math.log(12 / 0.05))
    assert given.log10_width == pytest.approx(math.log10(width) + 30 * B / math.log(10))
    assert given.log10_rate == pytest.approx(math.log10(lam / (512 * 144)) - 16 * B / math.log(10))
    assert given.log10_radius == pytest.approx(math.log10(lam / (16 * math.sqrt(12))) - 22 * B / math.log(10))
    movement = 2 / lam * math.sqrt(12) * Y.norm().item() / 512
    assert given.log10_movement == pytest.approx(math.log10(movement) + 20 * B / math.log(10))


def test_no_real_prefix_is_long_enough():
    assert prefix_guarantee(NETWORK, X, Y).log10_width > 100


def test_a_kernel_that_is_not_definite_asks_for_infinitely_much():
    doubled = torch.cat([X, X[:1]]), torch.cat([Y, Y[:1]])
    given = prefix_guarantee(NETWORK, *doubled)
    assert given.log10_width > prefix_guarantee(NETWORK, X, Y).log10_width + 20


def test_the_bound_is_at_least_one():
    assert concentration_bound(10, 1e-9, 0.05) == 1.0


@pytest.mark.parametrize(
    ("X", "Y", "delta", "message"),
    [
        (2 * X, Y, 0.05, "X has a row of norm 2, expected at most 1"),
        (X, 10 * Y, 0.05, "Y has a row of norm"),
        (X, Y[:2], 0.05, "Y has 2 rows"),
        (X.long(), Y, 0.05, "floating point"),
        (X * math.nan, Y, 0.05, "NaN"),
        (X, Y, 0.5, "delta is 0.5"),
        (X, Y, 0.0, "delta is 0.0"),
    ],
)
def test_what_the_theorem_excludes_is_refused(X, Y, delta, message):
    with pytest.raises(AttangentError, match=message):
        prefix_guarantee(NETWORK, X, Y, delta)
