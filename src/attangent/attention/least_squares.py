"""Least squares with a ridge, free or over the non-negative numbers; every fit of the project uses these."""

import torch
from torch import Tensor

_FULL_EXCHANGES = 3
_ROUNDS = 100


def ridge_solution(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """argmin |A x - b|^2/n + ridge |x|^2 for A (..., n, r) and b (..., n, c)."""
    n, r = design.shape[-2:]
    gram = design.mT @ design / n + ridge * torch.eye(r, dtype=design.dtype)
    return torch.linalg.solve(gram, design.mT @ target / n)


def non_negative_solution(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """argmin |A x - b|^2/n + ridge |x|^2 over x >= 0 for A (n, r) and b (n), in float64.

    The columns of A should be of like size: the ridge is the same for all of them.
    """
    n, r = design.shape
    gram = design.mT @ design / n + ridge * torch.eye(r, dtype=design.dtype)
    return non_negative_minimum(gram, design.mT @ target / n)


def non_negative_minimum(gram: Tensor, right: Tensor) -> Tensor:
    """argmin x' G x/2 - c' x over x >= 0 for a positive definite G (r, r) and c (r), in float64."""
    found = _pivoted(gram, right)
    return _one_by_one(gram, right) if found is None else found


def _pivoted(gram: Tensor, right: Tensor) -> Tensor | None:
    """argmin x' G x/2 - c' x over x >= 0 by block principal pivoting (Kim and Park, 2011); None if it cycles.

    Entries are free or zero. All entries on the wrong side change places together, so that a few solves
    decide; where that brings no progress only the last of them does.
    """
    free = torch.ones_like(right, dtype=torch.bool)
    fewest, left = len(right) + 1, _FULL_EXCHANGES
    for _ in range(_ROUNDS):
        x = torch.zeros_like(right)
        if free.any():
            factor = torch.linalg.cholesky(gram[free][:, free])
            x[free] = torch.cholesky_solve(right[free].unsqueeze(1), factor).squeeze(1)
        slope = gram @ x - right
        small = 1e-12 * right.abs().max()
        wrong = (free & (x < 0)) | (~free & (slope < -small))
        count = int(wrong.sum())
        if count == 0:
            return x
        if count < fewest:
            fewest, left = count, _FULL_EXCHANGES
        elif left > 0:
            left -= 1
        else:
            wrong = torch.arange(len(right)) == wrong.nonzero()[-1]
        free = free ^ wrong
    return None


def _one_by_one(gram: Tensor, right: Tensor) -> Tensor:
    """The same by scipy, which frees one entry after another: with G = L L' it is |L' x - L^-1 c|^2."""
    from scipy.optimize import nnls

    factor = torch.linalg.cholesky(gram)
    rows = torch.linalg.solve_triangular(factor, right.unsqueeze(1), upper=False)
    return torch.from_numpy(
        nnls(factor.mT.contiguous().numpy(), rows[:, 0].numpy(), maxiter=10 * len(right))[0]
    )
