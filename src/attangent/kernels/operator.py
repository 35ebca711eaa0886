"""The kernel as a matrix that only multiplies, and what products alone give: ends of the spectrum, solves."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import eye_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg
from torch import Tensor

from attangent._core.arrays import as_double
from attangent._core.checks import check_not_negative, check_positive
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.kernels.krylov import KrylovSpace
from attangent.kernels.memory import check_limit, refuse_above
from attangent.kernels.tangent import Tangent, kernel_product, trace_kernel

Vector = NDArray[Any]


class KernelOperator(LinearOperator):
    """K = J_left J_right'/width as a scipy LinearOperator; K v costs O(n m d) and never builds K.

    The gates (n m numbers) are kept where half of `memory_limit` allows it, else made anew in each product.
    """

    def __init__(self, left: Tangent, right: Tangent, memory_limit: float):
        limit = check_limit(memory_limit)
        same = left is right
        itemsize = left.layout.itemsize
        gates = itemsize * left.m * (left.points if same else left.points + right.points)
        working = 24 * 2**20 + 8 * itemsize * (left.rows + right.rows)
        what = f"a product with a kernel of {left.rows} x {right.rows}"
        refuse_above(limit, working, what, "raise memory_limit or take fewer points")
        if gates + working <= limit / 2:
            left = left.held()
            right = left if same else right.held()
        self.left, self.right = left, right
        self._room = limit - working
        dtype = np.float64 if left.outputs.dtype == torch.float64 else np.float32
        super().__init__(np.dtype(dtype), (left.rows, right.rows))

    def _matvec(self, x: Vector) -> Vector:
        return _product(self.left, self.right, x)

    def _rmatvec(self, x: Vector) -> Vector:
        return _product(self.right, self.left, x)

    def preconditioner(self, ridge: float) -> LinearOperator | None:
        """I_d_out times the inverse of the mean block over outputs, where n x n numbers fit; else None.

        Blocks between different outputs are small in all networks but PrefixNetwork, where it helps less.
        """
        check_not_negative("ridge", ridge)
        n, d_out = self.left.points, self.left.d_out
        if self.left is not self.right or 6 * 8 * n**2 > self._room:
            return None
        mean = trace_kernel(self.left).double() / d_out
        mean.diagonal().add_(ridge + 1e-10 * mean.diagonal().mean())
        factor, failed = torch.linalg.cholesky_ex(mean)
        return None if failed else _BlockSolve(factor, d_out)


class _BlockSolve(LinearOperator):
    """v -> (I_d_out x A^-1) v for A given by its Cholesky factor."""

    def __init__(self, factor: Tensor, d_out: int):
        self.factor, self.d_out = factor, d_out
        super().__init__(np.dtype(np.float64), (d_out * len(factor), d_out * len(factor)))

    def _matvec(self, x: Vector) -> Vector:
        columns = torch.as_tensor(np.ascontiguousarray(x)).reshape(self.d_out, -1).T
        return torch.cholesky_solve(columns, self.factor).T.reshape(-1).numpy(force=True)


def _product(left: Tangent, right: Tangent, x: Vector) -> Vector:
    v = torch.as_tensor(np.ascontiguousarray(x).reshape(-1)).to(right.outputs)
    V = v.view(right.d_out, right.points).T.contiguous()
    return kernel_product(left, right, V).T.reshape(-1).numpy(force=True)


def largest_eigenvalue(operator: LinearOperator, tolerance: float = 1e-8, max_products: int = 1000) -> float:
    """lambda_max of a positive semi-definite operator by Lanczos iteration, to `tolerance` relative.

    >>> from scipy.sparse.linalg import aslinearoperator
    >>> round(largest_eigenvalue(aslinearoperator(np.diag([3.0, 2.0, 1.0]))), 6)
    3.0
    """
    return _settled_end(operator, -1, tolerance, max_products)


def smallest_eigenvalue(operator: LinearOperator, tolerance: float = 1e-6, max_products: int = 2000) -> float:
    """lambda_min of a positive semi-definite operator by Lanczos iteration, to `tolerance * lambda_max`.

    It comes from above and takes many more products than lambda_max, because small eigenvalues crowd; what is
    below `tolerance * lambda_max` is not told apart from zero.

    >>> from scipy.sparse.linalg import aslinearoperator
    >>> round(smallest_eigenvalue(aslinearoperator(np.diag([3.0, 2.0, 1.0]))), 4)
    1.0
    """
    return max(0.0, _settled_end(operator, 0, tolerance, max_products))


def _settled_end(operator: LinearOperator, end: int, tolerance: float, max_products: int) -> float:
    """The first or last Ritz value once a quarter more products change it by a fifth of the tolerance."""
    check_positive("tolerance", tolerance)
    check_square(operator)
    start = torch.randn(operator.shape[0], generator=generator(0, "lanczos"), dtype=torch.float64)
    space, before = KrylovSpace(operator, start), torch.inf
    while len(space) < max_products:
        space.extend(min(max(10, len(space) // 4), max_products - len(space)))
        values = space.ritz_values()
        if space.complete or abs(values[end] - before) <= 0.2 * tolerance * values[-1]:
            return values[end].item()
        before = values[end]
    raise AttangentError(
        f"Lanczos did not settle to {tolerance:g} of the largest eigenvalue within {max_products} products: "
        "raise max_products or tolerance"
    )


def solve(
    operator: LinearOperator,
    right_side: Any,
    *,
    ridge: float = 0.0,
    tolerance: float = 1e-6,
    max_products: int = 20_000,
) -> Tensor:
    """x with |(K + ridge I) x - right_side| <= tolerance |right_side|, by conjugate gradients.

    A `KernelOperator` brings a preconditioner with it.
    """
    check_positive("tolerance", tolerance)
    check_square(operator)
    check_not_negative("ridge", ridge)
    b = as_double("right_side", right_side).detach().numpy()
    if b.shape != (operator.shape[0],) or not np.isfinite(b).all():
        raise AttangentError(
            f"right_side has shape {b.shape}, expected {operator.shape[0]} finite numbers: vectorise(R)"
        )
    shifted = operator + ridge * _identity(operator) if ridge else operator
    helper = operator.preconditioner(ridge) if isinstance(operator, KernelOperator) else None
    solution, failed = cg(shifted, b, rtol=tolerance, atol=0.0, maxiter=max_products, M=helper)
    if failed:
        reached = np.linalg.norm(shifted.matvec(solution) - b) / np.linalg.norm(b)
        raise AttangentError(
            f"conjugate gradients reached a residual of {reached:.2g} in {max_products} products, expected "
            f"{tolerance:g}: add a ridge (the kernel is close to singular) or raise max_products"
        )
    return torch.as_tensor(solution)


def _identity(operator: LinearOperator) -> LinearOperator:
    return aslinearoperator(eye_array(operator.shape[0]))


def check_square(operator: Any) -> None:
    """Refuse what is not a square operator."""
    shape = getattr(operator, "shape", None)
    if not isinstance(operator, LinearOperator) or operator.shape[0] != operator.shape[1]:
        raise AttangentError(
            f"operator is {type(operator).__name__} of shape {shape}, "
            "expected a square scipy LinearOperator: network.kernel_operator(X)"
        )
