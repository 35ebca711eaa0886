import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from attangent import AttangentError
from attangent.kernels.modules import nystrom


def kernel(size, rank, seed=0, tail=0.0):
    draw = torch.Generator().manual_seed(seed)
    factor = torch.randn(size, rank, generator=draw, dtype=torch.float64)
    return factor @ factor.T + tail * torch.eye(size, dtype=torch.float64)


@given(seed=st.integers(0, 20), rank=st.integers(1, 6))
def test_a_kernel_of_low_rank_is_found_whole(seed, rank):
    K = kernel(20, rank, seed)
    found = nystrom(aslinearoperator(K.numpy()), rank + 2)
    assert torch.allclose(found.times(torch.eye(20, dtype=torch.float64)), K, atol=1e-7 * K.norm().item())
    assert found.error < 1e-6


def test_the_error_is_said():
    K = torch.diag(torch.linspace(1, 2, 40, dtype=torch.float64))
    found = nystrom(aslinearoperator(K.numpy()), 10)
    true = (K - found.times(torch.eye(40, dtype=torch.float64))).norm() / K.norm()
    assert found.error == pytest.approx(true.item(), rel=0.4)
    assert found.error > 0.5


def test_solves_with_a_ridge():
    K = kernel(15, 4)
    found = nystrom(aslinearoperator(K.numpy()), 8)
    b = torch.arange(15.0, dtype=torch.float64)
    want = torch.linalg.solve(K + 0.3 * torch.eye(15, dtype=torch.float64), b)
    assert torch.allclose(found.solve(b, 0.3), want, rtol=1e-6, atol=1e-8)


def test_bad_input():
    operator = aslinearoperator(kernel(5, 2).numpy())
    with pytest.raises(AttangentError, match="rank is 6"):
        nystrom(operator, 6)
    with pytest.raises(AttangentError, match="ridge"):
        nystrom(operator, 3).solve(torch.ones(5), 0.0)
