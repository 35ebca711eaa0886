import numpy as np
import torch
from scipy.sparse.linalg import aslinearoperator

from attangent.kernels.krylov import krylov_spectrum


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
