"""Whether an initialisation can be trained in floating point."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.icl.dictionary import Dictionary

SATURATED = 0.9
DEPENDENT = 1e-12


class InitialisationWarning(UserWarning):
    """The softmax is saturated, or the heads are numerically dependent."""


@dataclass(frozen=True)
class Health:
    """`largest_weight`: the mean over heads and tokens of the largest softmax weight, 1/N to 1.

    `zeta`: zeta_0 of Eq. 14, the least eigenvalue of B_k B_k' over all k with B_k = Z_bar C_k; 0 for H < N.
    """

    largest_weight: float
    zeta: float
    heads: int
    N: int

    @property
    def saturated(self) -> bool:
        return self.N > 1 and self.largest_weight > SATURATED

    @property
    def dependent(self) -> bool:
        """Whether H >= N heads, independent by Proposition 1, are dependent in floating point."""
        return self.heads >= self.N and self.zeta < DEPENDENT

    @property
    def complaints(self) -> tuple[str, ...]:
        found = []
        if self.saturated:
            found.append(
                f"the softmax is saturated: its largest weight is {self.largest_weight:.3g} on average, "
                f"expected at most {SATURATED}. Gradients in Q vanish: take a smaller logit_std, such as 2"
            )
        if self.dependent:
            found.append(
                f"zeta_0 is {self.zeta:.1e}, expected at least {DEPENDENT:g}: the heads are numerically "
                "dependent and Proposition 1 fails in floating point. Take more heads, or a logit_std near 2"
            )
        return tuple(found)


def examine(dictionary: Dictionary, S: Tensor) -> Health:
    """The health of softmax vectors S (H, N, K)."""
    return Health(
        largest_weight=S.amax(dim=1).mean().item(),
        zeta=zeta(dictionary, S),
        heads=S.shape[0],
        N=dictionary.N,
    )


def zeta(dictionary: Dictionary, S: Tensor) -> float:
    """min over k of lambda_min(B_k B_k'), by singular values of B_k = Z_bar C_k, C_k = S[:, :, k]'."""
    if S.shape[0] < dictionary.N:
        return 0.0
    B = dictionary.Z_bar @ S.permute(2, 1, 0)
    return torch.linalg.svdvals(B)[:, -1].square().min().item()
