"""Kernels as operators that only multiply: Krylov spaces, eigenvalues and solves from products alone."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse import eye_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg
from torch import Tensor

from attangent._core.arrays import as_double
from attangent._core.checks import check_not_negative, check_positive
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.kernels.checks import check_limit, refuse_above
from attangent.kernels.tangent import Tangent, kernel_product, trace_kernel

Vector = NDArray[Any]


class KernelOperator(LinearOperator):
    """K = J_left J_right'/width as a scipy LinearOperator; K v costs O(n m d) and never builds K.

    The gates (n m numbers) are stored if half of `memory_limit` allows it, else recomputed in each product.

    Args:
        left: Tangent at the points of the rows.
        right: Tangent at the points of the columns.
        memory_limit: Most bytes to take.

    Raises:
        AttangentError: If even one product needs more than `memory_limit` bytes.

    Example:
        >>> from attangent.kernels import SoftmaxNetwork
        >>> operator = SoftmaxNetwork(d_in=3, d_out=2, m=64).kernel_operator(torch.eye(3))
        >>> operator.shape, operator.matvec(np.ones(6)).shape
        ((6, 6), (6,))
    """

    def __init__(self, left: Tangent, right: Tangent, memory_limit: float):
        limit = check_limit(memory_limit)
        same = left is right
        itemsize = left.layout.itemsize
        gates = itemsize * left.m * (left.points if same else left.points + right.points)
        working = 24 * 2**20 + 8 * itemsize * (left.rows + right.rows)
        what = f"a product with a kernel of {left.rows} x {right.rows}"
        refuse_above(limit, working, what, "raise memory_limit or take fewer points")
        # Half of the limit, to leave room for the vectors of the caller's solver.
        if gates + working <= limit / 2:
            left = left.held()
            right = left if same else right.held()
        self.left = left
        self.right = right
        self._room = limit - working
        dtype = np.float64 if left.outputs.dtype == torch.float64 else np.float32
        super().__init__(np.dtype(dtype), (left.rows, right.rows))

    def _matvec(self, x: Vector) -> Vector:
        return _product(self.left, self.right, x)

    def _rmatvec(self, x: Vector) -> Vector:
        return _product(self.right, self.left, x)

    def preconditioner(self, ridge: float) -> LinearOperator | None:
        """Return I_d_out times the inverse of the mean diagonal block over outputs.

        Blocks between different outputs are small in all networks but P1's, which gains less from it.

        Args:
            ridge: Number added to the diagonal of the kernel.

        Returns:
            The preconditioner, or None if K is not symmetric or n x n numbers do not fit into memory.
        """
        check_not_negative("ridge", ridge)
        n = self.left.points
        d_out = self.left.d_out
        if self.left is not self.right or 6 * 8 * n**2 > self._room:
            return None
        mean = trace_kernel(self.left).double() / d_out
        # A little jitter keeps the factorisation from failing on duplicate points.
        mean.diagonal().add_(ridge + 1e-10 * mean.diagonal().mean())
        factor, failed = torch.linalg.cholesky_ex(mean)
        return None if failed else _BlockSolve(factor, d_out)


class _BlockSolve(LinearOperator):
    """v -> (I_d_out x A^-1) v for A given by its Cholesky factor."""

    def __init__(self, factor: Tensor, d_out: int):
        self.factor = factor
        self.d_out = d_out
        super().__init__(np.dtype(np.float64), (d_out * len(factor), d_out * len(factor)))

    def _matvec(self, x: Vector) -> Vector:
        columns = torch.as_tensor(np.ascontiguousarray(x)).reshape(self.d_out, -1).T
        return torch.cholesky_solve(columns, self.factor).T.reshape(-1).numpy(force=True)


def _product(left: Tangent, right: Tangent, x: Vector) -> Vector:
    v = torch.as_tensor(np.ascontiguousarray(x).reshape(-1)).to(right.outputs)
    V = v.view(right.d_out, right.points).T.contiguous()
    return kernel_product(left, right, V).T.reshape(-1).numpy(force=True)


class KrylovSpace:
    """Orthonormal vectors of span{r, K r, K^2 r, ...} for a symmetric K, one product at a time.

    For a polynomial p of degree below the dimension k, p(K) r = V p(ritz) V'r exactly.
    """

    def __init__(self, operator: LinearOperator, start: Tensor):
        self._operator = operator
        self._basis = (start / start.norm())[None]  # rows; there is always one more than products
        self._diagonal: list[Tensor] = []
        self._off_diagonal: list[Tensor] = []
        self.complete = False
        """True once the space holds everything that the vector can reach."""

    def __len__(self) -> int:
        return len(self._diagonal)

    def extend(self, steps: int) -> None:
        """Take up to `steps` more products."""
        rows = self._basis.shape[1]
        unfilled = self._basis.new_empty(min(steps, rows), rows)
        self._basis = torch.cat([self._basis[: len(self) + 1], unfilled])
        for _ in range(steps):
            if self.complete:
                return
            self._step()

    def ritz(self) -> tuple[Tensor, Tensor]:
        """Return Ritz values (k,) in rising order and Ritz vectors (N, k)."""
        values, vectors = torch.linalg.eigh(self._tridiagonal())
        return values, self._basis[: len(self)].T @ vectors

    def ritz_values(self) -> Tensor:
        """Return Ritz values (k,) in rising order."""
        return torch.linalg.eigvalsh(self._tridiagonal())

    def _step(self) -> None:
        k = len(self)
        vector = self._basis[k]
        image = torch.as_tensor(self._operator.matvec(vector.numpy())).double()
        self._diagonal.append(vector @ image)
        # Orthogonal to all earlier vectors, not just the last two as in textbook Lanczos: round-off would
        # otherwise make eigenvalues appear twice.
        rest = _orthogonal(image, self._basis[: k + 1])
        norm = rest.norm()
        self.complete = k + 1 == len(vector) or bool(norm <= 1e-12 * image.norm())
        if not self.complete:
            self._off_diagonal.append(norm)
            self._basis[k + 1] = rest / norm

    def _tridiagonal(self) -> Tensor:
        tridiagonal = torch.diag(torch.stack(self._diagonal))
        if len(self) > 1:
            off_diagonal = torch.stack(self._off_diagonal[: len(self) - 1])
            tridiagonal += torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1)
        return tridiagonal


def krylov_spectrum(operator: LinearOperator, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return non-negative Ritz values (k,) and vectors (N, k) of the space that `steps` products span."""
    if start.norm() == 0:
        raise AttangentError("residual is zero: there is nothing to train")
    space = KrylovSpace(operator, start)
    space.extend(steps)
    values, vectors = space.ritz()
    if values[-1] <= 0:
        raise AttangentError("the kernel maps the residual to zero: training would not move it")
    return values.clamp(min=0), vectors


def _orthogonal(vector: Tensor, basis: Tensor) -> Tensor:
    # Twice, because one Gram-Schmidt pass is not enough in floating point.
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def largest_eigenvalue(operator: LinearOperator, tolerance: float = 1e-8, max_products: int = 1000) -> float:
    """Compute lambda_max of a positive semi-definite operator by Lanczos iteration.

    Args:
        operator: Square operator.
        tolerance: Relative accuracy.
        max_products: Most products with the operator.

    Returns:
        The largest eigenvalue.

    Raises:
        AttangentError: If the iteration does not settle within `max_products` products.

    Example:
        >>> from scipy.sparse.linalg import aslinearoperator
        >>> round(largest_eigenvalue(aslinearoperator(np.diag([3.0, 2.0, 1.0]))), 6)
        3.0
    """
    return _settled_end(operator, -1, tolerance, max_products)


def smallest_eigenvalue(operator: LinearOperator, tolerance: float = 1e-6, max_products: int = 2000) -> float:
    """Compute lambda_min of a positive semi-definite operator by Lanczos iteration.

    The estimate falls toward lambda_min and takes many more products than lambda_max, because small
    eigenvalues crowd.

    Args:
        operator: Square operator.
        tolerance: Accuracy as a share of lambda_max; anything smaller counts as zero.
        max_products: Most products with the operator.

    Returns:
        The smallest eigenvalue, at least 0.

    Raises:
        AttangentError: If the iteration does not settle within `max_products` products.

    Example:
        >>> from scipy.sparse.linalg import aslinearoperator
        >>> round(smallest_eigenvalue(aslinearoperator(np.diag([3.0, 2.0, 1.0]))), 4)
        1.0
    """
    return max(0.0, _settled_end(operator, 0, tolerance, max_products))


def _settled_end(operator: LinearOperator, end: int, tolerance: float, max_products: int) -> float:
    """Return the first or last Ritz value once a quarter more products barely change it."""
    check_positive("tolerance", tolerance)
    check_square(operator)
    # A fixed random start: it meets every eigenvector, and the result is reproducible.
    start = torch.randn(operator.shape[0], generator=generator(0, "lanczos"), dtype=torch.float64)
    space = KrylovSpace(operator, start)
    before: Tensor | float = torch.inf
    while len(space) < max_products:
        space.extend(min(max(10, len(space) // 4), max_products - len(space)))
        values = space.ritz_values()
        # A fifth of the tolerance: later batches of products may still move the value by a few times this.
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
) -> Float[Tensor, " N"]:
    """Solve (K + ridge I) x = b by conjugate gradients; a `KernelOperator` preconditions itself.

    Args:
        operator: Square positive semi-definite operator K (N, N).
        right_side: b (N,).
        ridge: Number added to the diagonal.
        tolerance: Largest |(K + ridge I) x - b| / |b|.
        max_products: Most products with the operator.

    Returns:
        x (N,).

    Raises:
        AttangentError: If the shapes do not match, or the tolerance is not reached.

    Example:
        >>> from scipy.sparse.linalg import aslinearoperator
        >>> solve(aslinearoperator(np.diag([2.0, 4.0])), [1.0, 1.0])
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    check_positive("tolerance", tolerance)
    check_square(operator)
    check_not_negative("ridge", ridge)
    b = as_double("right_side", right_side).detach().numpy()
    if b.shape != (operator.shape[0],) or not np.isfinite(b).all():
        raise AttangentError(
            f"right_side has shape {b.shape}, expected {operator.shape[0]} finite numbers: vectorise(R)"
        )
    identity = aslinearoperator(eye_array(operator.shape[0]))
    shifted = operator + ridge * identity if ridge else operator
    helper = operator.preconditioner(ridge) if isinstance(operator, KernelOperator) else None
    solution, failed = cg(shifted, b, rtol=tolerance, atol=0.0, maxiter=max_products, M=helper)
    if failed:
        reached = np.linalg.norm(shifted.matvec(solution) - b) / np.linalg.norm(b)
        raise AttangentError(
            f"conjugate gradients reached a residual of {reached:.2g} in {max_products} products, expected "
            f"{tolerance:g}: add a ridge (the kernel is close to singular) or raise max_products"
        )
    return torch.as_tensor(solution)


def check_square(operator: Any) -> None:
    """Raise an AttangentError unless `operator` is a square scipy LinearOperator."""
    shape = getattr(operator, "shape", None)
    if not isinstance(operator, LinearOperator) or operator.shape[0] != operator.shape[1]:
        raise AttangentError(
            f"operator is {type(operator).__name__} of shape {shape}, "
            "expected a square scipy LinearOperator: network.kernel_operator(X)"
        )
