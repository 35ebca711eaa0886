"""Least squares with a ridge, free or over the non-negative numbers; every fit of the project uses these."""

import torch
from torch import Tensor


def ridge_solution(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """argmin |A x - b|^2/n + ridge |x|^2 for A (..., n, r) and b (..., n, c)."""
    n, r = design.shape[-2:]
    gram = design.mT @ design / n + ridge * torch.eye(r, dtype=design.dtype)
    return torch.linalg.solve(gram, design.mT @ target / n)


def non_negative_solution(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """argmin |A x - b|^2/n + ridge |x|^2 over x >= 0 for A (n, r) and b (n), in float64.

    With A' A/n + ridge = L L' the sum of squares is |L' x - L^-1 A' b/n|^2 up to a constant: r rows in
    the place of n. The columns of A should be of like size: the ridge is the same for all of them.
    """
    from scipy.optimize import nnls

    n, r = design.shape
    gram = design.mT @ design / n + ridge * torch.eye(r, dtype=design.dtype)
    factor = torch.linalg.cholesky(gram)
    right = torch.linalg.solve_triangular(factor, (design.mT @ target / n).unsqueeze(1), upper=False)
    return torch.from_numpy(nnls(factor.mT.contiguous().numpy(), right[:, 0].numpy(), maxiter=10 * r)[0])
