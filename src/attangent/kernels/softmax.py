"""The two-layer softmax network of P2 with gradient and tangent kernel in closed form."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attangent.kernels.checks import as_points
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import DenseFactor, Factor, Tangent, neuron_blocks


class SoftmaxNetwork(TwoLayerNetwork):
    """F(x) = m a softmax(W'x), with W (d_in, m) trained and a (d_out, m) fixed (P2 Eq. 1).

    With S = softmax(X W), mu = S a' and R = F - Y the gradient of 1/2 |R|^2 is
    m X'(S * (R a - (R * mu) 1)) (Claim 3.4), and the kernel (Definition 3.6) is J J'/m.

    Args:
        d_in: Dimension of a point.
        d_out: Number of outputs.
        m: Number of hidden neurons.
        sigma: Standard deviation of the initial weights.
        init: `symmetric` (the network starts at zero; m must be even) or `independent`.
        seed: Seed of the weights.
        dtype: Precision of weights and results.

    Example:
        >>> network = SoftmaxNetwork(d_in=4, d_out=2, m=512, seed=0)
        >>> network.kernel(torch.eye(4)).shape
        torch.Size([8, 8])
    """

    @property
    def width(self) -> float:
        """m: the kernel is J J'/m."""
        return float(self.m)

    def probabilities(self, X: Any) -> Float[Tensor, "n m"]:
        """Compute S = softmax(X W).

        Args:
            X: Points (n, d_in).

        Returns:
            S (n, m).
        """
        return torch.softmax(as_points("X", X, self.d_in, self.W) @ self.W, dim=1)

    def _tangent(self, X: Tensor) -> Tangent:
        return softmax_tangent(X, self.W, DenseFactor(self.a))


@dataclass(frozen=True)
class SoftmaxGate:
    """P[i, r] = exp(x_i.w_r - peak_i) / mass_i."""

    X: Float[Tensor, "n p"]
    W: Float[Tensor, "p m"]
    peak: Float[Tensor, " n"]
    mass: Float[Tensor, " n"]

    def __call__(self, block: slice) -> Tensor:
        logits = self.X @ self.W[:, block]
        # In place: the block of logits is the only large temporary.
        return logits.sub_(self.peak[:, None]).exp_().div_(self.mass[:, None])

    def restricted(self, span: slice) -> "SoftmaxGate":
        return SoftmaxGate(self.X, self.W[:, span].clone(), self.peak, self.mass)


def softmax_tangent(X: Tensor, W: Tensor, values: Factor, direct: Tensor | None = None) -> Tangent:
    """Return the tangent of F = m S v', S = softmax(X W): gate m S and centre mu = S v'."""
    m = W.shape[1]
    stretches = neuron_blocks(m, max(len(X), len(W)), X.element_size())
    gate: Factor
    # One block: S is small, so store it as the gate and skip the blockwise normalisation.
    if len(stretches) == 1:
        S = torch.softmax(X @ W, dim=1)
        mu = S @ values(stretches[0]).T
        gate = DenseFactor(m * S)
    else:
        peak, total, mu = _normalise(X, W, values, stretches)
        # mass = total / m folds the factor m of the network into the gate: P = m S.
        gate = SoftmaxGate(X, W, peak, total / m)
    return Tangent(m * mu, X, gate, values, m, float(m), centre=mu, direct=direct)


def _normalise(
    X: Tensor, W: Tensor, values: Factor, stretches: Iterable[slice]
) -> tuple[Tensor, Tensor, Tensor]:
    """Largest logit, sum of exp(logit - largest), and mu = S v', accumulated block by block."""
    peak = X.new_full((len(X),), -torch.inf)
    total = torch.zeros_like(peak)
    weighted = 0.0 * X[:, :1]
    for block in stretches:
        logits = X @ W[:, block]
        higher = torch.maximum(peak, logits.amax(dim=1))
        weights = logits.sub_(higher[:, None]).exp_()
        # Online softmax: when a block raises the peak, rescale what earlier blocks added.
        fade = (peak - higher).exp()
        total = total * fade + weights.sum(dim=1)
        weighted = weighted * fade[:, None] + weights @ values(block).T
        peak = higher
    return peak, total, weighted / total[:, None]
