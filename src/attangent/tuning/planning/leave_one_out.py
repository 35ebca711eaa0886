"""Kernel regression with its ridge and its mixture of two kernels by the rows left out, in closed form."""

from dataclasses import dataclass

import torch
from torch import Tensor

SHARES = (0.0, 0.03, 0.1, 0.3, 1.0)
"""How much of the second kernel is tried."""
RIDGES = tuple(10.0**power for power in range(-4, 2))


@dataclass(frozen=True)
class Fit:
    """f = (K_1 + share K_2) coefficients, with rows of O numbers each.

    error: the mean square of what a row left out is missed by. sharpness: by what scores are multiplied
    before softmax, for the least cross-entropy of rows left out.
    """

    coefficients: Tensor
    share: float
    ridge: float
    error: float
    sharpness: float
    outputs: int

    def predicted(self, first: Tensor, second: Tensor) -> Tensor:
        """f (n, O) from the kernels (n O, n' O) between new rows and those of the fit."""
        return ((first + self.share * second) @ self.coefficients).unflatten(0, (-1, self.outputs))


def best_fit(first: Tensor, second: Tensor, wanted: Tensor) -> Fit:
    """The fit to `wanted` (n, O), of all shares and ridges the one whose rows left out are missed least."""
    fits = [_fits(first + share * second, wanted, share) for share in SHARES]
    return min((fit for group in fits for fit in group), key=lambda fit: fit.error)


def _fits(kernel: Tensor, wanted: Tensor, share: float) -> list[Fit]:
    """A fit for each ridge: with A = K + ridge I and B = A^-1, row i left out is missed by
    (B_ii)^-1 (B y)_i, blocks of O."""
    count, outputs = wanted.shape
    values, vectors = torch.linalg.eigh(kernel)
    scale = float(kernel.diagonal().mean())
    inside = vectors.T @ wanted.flatten()
    blocks = vectors.unflatten(0, (count, outputs))
    found = []
    for relative in RIDGES:
        inverse = 1 / (values.clamp(min=0) + relative * scale)
        coefficients = vectors @ (inverse * inside)
        own = torch.einsum("iov,v,ipv->iop", blocks, inverse, blocks)
        missed = torch.linalg.solve(own, coefficients.unflatten(0, (count, outputs)))
        error = float(missed.square().mean())
        sharpness = _sharpness(wanted - missed, wanted)
        found.append(Fit(coefficients, share, relative * scale, error, sharpness, outputs))
    return found


def _sharpness(left_out: Tensor, wanted: Tensor) -> float:
    """The factor, of a few, under which scores of rows left out have the least cross-entropy.

    The classes are the distinct rows of `wanted`, which have one length.
    """
    classes, targets = torch.unique(wanted, dim=0, return_inverse=True)
    logits = left_out @ classes.T
    tried = [2.0**power for power in range(-1, 7)]
    return min(tried, key=lambda factor: float(torch.nn.functional.cross_entropy(factor * logits, targets)))
