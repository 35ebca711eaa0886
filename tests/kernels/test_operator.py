"""Ends of the spectrum and solves from products alone."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator

from attangent import AttangentError
from attangent.kernels import (
    largest_eigenvalue,
    predict_training,
    smallest_eigenvalue,
    solve,
    unit_data,
    vectorise,
)
from attangent.kernels.operator import krylov_spectrum
from attangent.papers.p1_prefix.network import PrefixNetwork

X, Y = unit_data(40, 4, 4, seed=0)
NETWORK = PrefixNetwork(4, 1024, sigma=1.0)


def test_both_ends_of_the_spectrum():
    eigenvalues = torch.linalg.eigvalsh(NETWORK.kernel(X))
    operator = NETWORK.kernel_operator(X)
    assert largest_eigenvalue(operator) == pytest.approx(eigenvalues[-1].item(), rel=1e-8)
    above = smallest_eigenvalue(operator) - eigenvalues[0].item()
    assert -1e-12 <= above / eigenvalues[-1].item() <= 1e-6


@pytest.mark.parametrize("rows", [1, 2])
def test_tiny_operators(rows):
    matrix = np.diag([3.0, 2.0])[:rows, :rows]
    assert largest_eigenvalue(aslinearoperator(matrix)) == pytest.approx(3.0)
    assert smallest_eigenvalue(aslinearoperator(matrix)) == pytest.approx(matrix[-1, -1])


def test_a_right_side_with_a_gradient_is_taken_as_it_is():
    y = vectorise(Y[:8])
    operator = NETWORK.kernel_operator(X[:8])
    assert torch.equal(solve(operator, y.clone().requires_grad_()), solve(operator, y))


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_solves_to_the_tolerance(ridge):
    small = X[:8]
    y = vectorise(Y[:8])
    solution = solve(NETWORK.kernel_operator(small), y, ridge=ridge, tolerance=1e-9)
    K = NETWORK.kernel(small) + ridge * torch.eye(32).double()
    assert (K @ solution - y).norm() <= 1.1e-9 * y.norm()
    torch.testing.assert_close(solution, torch.linalg.solve(K, y), rtol=1e-4, atol=1e-4)


def test_predictions_without_the_matrix():
    new, _ = unit_data(3, 4, 4, seed=1)
    operator = NETWORK.kernel_operator(X)
    rate = 1.0 / (NETWORK.width * largest_eigenvalue(operator))
    free = predict_training(operator, -Y, rate, width=NETWORK.width)
    dense = predict_training(NETWORK.kernel(X), -Y, rate, width=NETWORK.width)
    torch.testing.assert_close(free.loss([0, 50, 500]), dense.loss([0, 50, 500]), rtol=1e-6, atol=0)
    torch.testing.assert_close(
        free.outputs(NETWORK.kernel_operator(new, X), 300),
        dense.outputs(NETWORK.kernel(new, X), 300),
        rtol=1e-6,
        atol=1e-9,
    )


def test_what_does_not_converge_says_so():
    hard = aslinearoperator(np.diag(np.logspace(-14, 0, 200)))
    with pytest.raises(AttangentError, match="add a ridge"):
        solve(hard, np.ones(200), tolerance=1e-12, max_products=20)
    with pytest.raises(AttangentError, match="raise max_products or tolerance"):
        largest_eigenvalue(hard, 1e-12, max_products=10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: largest_eigenvalue(np.eye(3)), "operator is ndarray"),
        (lambda: largest_eigenvalue(aslinearoperator(np.ones((3, 2)))), "expected a square"),
        (lambda: smallest_eigenvalue(aslinearoperator(np.eye(3)), tolerance=0), "tolerance is 0"),
        (lambda: solve(aslinearoperator(np.eye(3)), np.ones(4)), "expected 3 finite numbers"),
        (
            lambda: solve(aslinearoperator(np.eye(3)), np.full(3, np.nan)),
            "right_side has complex, NaN",
        ),
        (lambda: solve(aslinearoperator(np.eye(3)), np.ones(3), ridge=-1.0), "ridge is -1.0"),
        (lambda: NETWORK.kernel_operator(X, memory_limit=2**20), "raise memory_limit or take fewer points"),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises(AttangentError, match=message):
        call()


def test_it_ends_when_the_vector_has_seen_everything():
    K = np.diag([1.0, 1.0, 2.0, 5.0])
    values, vectors = krylov_spectrum(aslinearoperator(K), torch.ones(4).double(), 50)
    torch.testing.assert_close(values, torch.tensor([1.0, 2.0, 5.0]).double())
    assert vectors.shape == (4, 3)


def test_vectors_stay_orthonormal_where_the_spectrum_crowds():
    K = np.diag(np.logspace(-12, 0, 150))
    values, vectors = krylov_spectrum(aslinearoperator(K), torch.ones(150).double(), 100)
    gram = vectors.T @ vectors
    assert (gram - torch.eye(len(values)).double()).abs().max() < 1e-12
    assert (values[1:] >= values[:-1]).all()


def test_polynomials_below_the_degree_are_exact():
    rng = torch.Generator().manual_seed(0)
    J = torch.randn(30, 40, generator=rng, dtype=torch.float64)
    K, r = J @ J.T / 40, torch.randn(30, generator=rng, dtype=torch.float64)
    values, vectors = krylov_spectrum(aslinearoperator(K.numpy()), r, 6)
    exact = torch.linalg.matrix_power(torch.eye(30).double() - 0.3 * K, 5) @ r
    torch.testing.assert_close(
        vectors @ ((1 - 0.3 * values) ** 5 * (vectors.T @ r)), exact, rtol=1e-11, atol=1e-12
    )
