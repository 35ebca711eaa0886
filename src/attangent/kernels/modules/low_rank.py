"""A positive semi-definite operator from a few products: randomised Nystrom approximation and its error."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from attangent._core.arrays import fitted
from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.kernels.operator import check_square

_PROBES = 5


@dataclass(frozen=True)
class LowRank:
    """K = V diag(values) V' with orthonormal columns V, and how far it is from the operator.

    error: an estimate of |K - K_hat|_F / |K|_F, from products with random vectors that built nothing.
    """

    values: Tensor
    vectors: Tensor
    error: float

    def times(self, x: Tensor) -> Tensor:
        """K_hat x."""
        return self._scaled(self._fitted("x", x), self.values)

    def solve(self, right_side: Tensor, ridge: float) -> Tensor:
        """(K_hat + ridge I)^-1 b."""
        if not ridge > 0:
            raise AttangentError(f"ridge is {ridge!r}, expected a number above 0: K_hat has no full rank")
        b = self._fitted("right_side", right_side)
        return (b - self._scaled(b, self.values / (self.values + ridge))) / ridge

    def _fitted(self, name: str, x: Tensor) -> Tensor:
        """A vector, or columns, of as many numbers as K has rows."""
        shape = (len(self.vectors),) if x.ndim == 1 else (len(self.vectors), "columns")
        return fitted(name, x, self.vectors, *shape)

    def _scaled(self, x: Tensor, factors: Tensor) -> Tensor:
        """V diag(factors) V' x for a vector or columns."""
        inside = self.vectors.T @ x
        return self.vectors @ (factors * inside if x.ndim == 1 else factors[:, None] * inside)


def nystrom(operator: LinearOperator, rank: int, seed: int = 0) -> LowRank:
    """K_hat = Y (Omega' Y)^-1 Y' with Y = K Omega for `rank` random vectors Omega.

    Takes rank + 5 products; the last five estimate the error. Stable by a small shift that is taken off
    again (Tropp, Yurtsever, Udell and Cevher 2017, Algorithm 3).
    """
    check_square(operator)
    size = operator.shape[0]
    if check_size("rank", rank) > size:
        raise AttangentError(f"rank is {rank}, expected at most the operator's size {size}")
    draw = torch.randn(size, rank, generator=generator(seed, "nystrom"), dtype=torch.float64)
    omega = torch.linalg.qr(draw).Q
    Y = _products(operator, omega)
    shift = torch.finfo(torch.float64).eps * size**0.5 * Y.norm().item()
    Y = Y + shift * omega
    overlap = omega.T @ Y
    factor = torch.linalg.cholesky((overlap + overlap.T) / 2)
    left, singular, _ = torch.linalg.svd(
        torch.linalg.solve_triangular(factor, Y.T, upper=False).T, full_matrices=False
    )
    found = LowRank((singular.square() - shift).clamp(min=0), left, 0.0)
    return LowRank(found.values, found.vectors, _error(operator, found, seed))


def _products(operator: LinearOperator, columns: Tensor) -> Tensor:
    return torch.as_tensor(
        np.column_stack([operator.matvec(column) for column in columns.T.numpy()])
    ).double()


def _error(operator: LinearOperator, found: LowRank, seed: int) -> float:
    probes = torch.randn(
        operator.shape[0], _PROBES, generator=generator(seed, "nystrom error"), dtype=torch.float64
    )
    true = _products(operator, probes)
    return ((true - found.times(probes)).norm() / true.norm()).item()
