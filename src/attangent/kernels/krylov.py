"""The part of an operator's spectrum that one vector sees, by Lanczos iteration."""

import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from attangent._errors import AttangentError


def krylov_spectrum(operator: LinearOperator, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Ritz values (k,) in rising order and orthonormal Ritz vectors (N, k) of span{r, K r, K^2 r, ...}.

    For a polynomial p of degree below k, p(K) r = V p(ritz) V'r exactly. Vectors are kept orthogonal to all
    earlier ones, so that no eigenvalue shows up twice.
    """
    length = start.norm()
    if length == 0:
        raise AttangentError("residual is zero: there is nothing to train")
    basis = start.new_zeros(min(steps, len(start)), len(start))
    diagonal, beside = [], []
    vector = start / length
    for k in range(len(basis)):
        basis[k] = vector
        image = torch.as_tensor(operator.matvec(vector.numpy())).double()
        diagonal.append(vector @ image)
        vector = _orthogonal(image, basis[: k + 1])
        norm = vector.norm()
        if norm <= 1e-12 * image.norm() or k + 1 == len(basis):
            break
        beside.append(norm)
        vector = vector / norm
    return _ritz(basis[: len(diagonal)], torch.stack(diagonal), beside)


def _orthogonal(vector: Tensor, basis: Tensor) -> Tensor:
    """`vector` without its part in the basis; twice, because once is not enough in floating point."""
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _ritz(basis: Tensor, diagonal: Tensor, beside: list[Tensor]) -> tuple[Tensor, Tensor]:
    tridiagonal = torch.diag(diagonal)
    if beside:
        off = torch.stack(beside)
        tridiagonal += torch.diag(off, 1) + torch.diag(off, -1)
    values, vectors = torch.linalg.eigh(tridiagonal)
    if values[-1] <= 0:
        raise AttangentError("the kernel maps the residual to zero: training would not move it")
    return values.clamp(min=0), basis.T @ vectors
