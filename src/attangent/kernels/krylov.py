"""The part of an operator's spectrum that one vector sees, by Lanczos iteration."""

import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from attangent._core.errors import AttangentError


class KrylovSpace:
    """Orthonormal vectors of span{r, K r, K^2 r, ...} for a symmetric K, one product at a time.

    For a polynomial p of degree below the dimension k, p(K) r = V p(ritz) V'r exactly. Each vector is kept
    orthogonal to all earlier ones, so that no eigenvalue shows up twice.
    """

    def __init__(self, operator: LinearOperator, start: Tensor):
        self._operator = operator
        self._basis = (start / start.norm())[None]  # rows; there is always one more than products
        self._diagonal: list[Tensor] = []
        self._beside: list[Tensor] = []
        self.complete = False
        """True once the space holds everything that the vector can reach."""

    def __len__(self) -> int:
        return len(self._diagonal)

    def extend(self, steps: int) -> None:
        """Take up to `steps` more products."""
        rows = self._basis.shape[1]
        room = self._basis.new_empty(min(steps, rows), rows)
        self._basis = torch.cat([self._basis[: len(self) + 1], room])
        for _ in range(steps):
            if self.complete:
                return
            self._step()

    def ritz(self) -> tuple[Tensor, Tensor]:
        """Ritz values (k,) in rising order and Ritz vectors (N, k)."""
        values, vectors = torch.linalg.eigh(self._tridiagonal())
        return values, self._basis[: len(self)].T @ vectors

    def ritz_values(self) -> Tensor:
        return torch.linalg.eigvalsh(self._tridiagonal())

    def _step(self) -> None:
        k = len(self)
        vector = self._basis[k]
        image = torch.as_tensor(self._operator.matvec(vector.numpy())).double()
        self._diagonal.append(vector @ image)
        rest = _orthogonal(image, self._basis[: k + 1])
        norm = rest.norm()
        self.complete = k + 1 == len(vector) or bool(norm <= 1e-12 * image.norm())
        if not self.complete:
            self._beside.append(norm)
            self._basis[k + 1] = rest / norm

    def _tridiagonal(self) -> Tensor:
        tridiagonal = torch.diag(torch.stack(self._diagonal))
        if len(self) > 1:
            beside = torch.stack(self._beside[: len(self) - 1])
            tridiagonal += torch.diag(beside, 1) + torch.diag(beside, -1)
        return tridiagonal


def krylov_spectrum(operator: LinearOperator, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Ritz values (k,), none below zero, and vectors (N, k) of the space that `steps` products of r span."""
    if start.norm() == 0:
        raise AttangentError("residual is zero: there is nothing to train")
    space = KrylovSpace(operator, start)
    space.extend(steps)
    values, vectors = space.ritz()
    if values[-1] <= 0:
        raise AttangentError("the kernel maps the residual to zero: training would not move it")
    return values.clamp(min=0), vectors


def _orthogonal(vector: Tensor, basis: Tensor) -> Tensor:
    """`vector` without its part in the basis; twice, because once is not enough in floating point."""
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector
