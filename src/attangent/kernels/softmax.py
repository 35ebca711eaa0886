"""The two-layer softmax network of P2 with its gradient and tangent kernel in closed form."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from attangent.kernels._inputs import as_points
from attangent.kernels.factors import Factor, Rows, SoftmaxGate
from attangent.kernels.network import TwoLayerNetwork
from attangent.kernels.tangent import Tangent, neuron_blocks


class SoftmaxNetwork(TwoLayerNetwork):
    """F(x) = m a softmax(W' x), with W (d_in, m) trained and a (d_out, m) fixed (P2 Eq. 1).

    With S = softmax(X W), mu = S a' and R = F - Y the gradient of 1/2 |R|^2 is
    m X'(S * (R a - (R * mu) 1)) (Claim 3.4), and the kernel (Definition 3.6) is J J'/m.

    >>> network = SoftmaxNetwork(d_in=4, d_out=2, m=512, seed=0)
    >>> network.kernel(torch.eye(4)).shape
    torch.Size([8, 8])
    """

    @property
    def width(self) -> float:
        return float(self.m)

    def probabilities(self, X: Any) -> Tensor:
        """S = softmax(X W) (n, m)."""
        return torch.softmax(as_points("X", X, self.d_in, self.W) @ self.W, dim=1)

    def _tangent(self, X: Tensor) -> Tangent:
        return softmax_tangent(X, self.W, Rows(self.a))


def softmax_tangent(X: Tensor, W: Tensor, values: Factor, direct: Tensor | None = None) -> Tangent:
    """The tangent of F = m S v', S = softmax(X W): gate m S and centre mu = S v'."""
    m = W.shape[1]
    stretches = neuron_blocks(m, max(len(X), len(W)), X.element_size())
    if len(stretches) == 1:
        S = torch.softmax(X @ W, dim=1)
        mu, gate = S @ values(stretches[0]).T, Rows(m * S)
    else:
        peak, total, mu = _normalise(X, W, values, stretches)
        gate = SoftmaxGate(X, W, peak, total / m)
    return Tangent(m * mu, X, gate, values, m, float(m), centre=mu, direct=direct)


def _normalise(
    X: Tensor, W: Tensor, values: Factor, stretches: Iterable[slice]
) -> tuple[Tensor, Tensor, Tensor]:
    """Largest logit, sum of exp(logit - largest), and mu = S v', block by block."""
    peak = X.new_full((len(X),), -torch.inf)
    total, weighted = torch.zeros_like(peak), 0.0 * X[:, :1]
    for block in stretches:
        logits = X @ W[:, block]
        higher = torch.maximum(peak, logits.amax(dim=1))
        weights = logits.sub_(higher[:, None]).exp_()
        fade = (peak - higher).exp()
        total = total * fade + weights.sum(dim=1)
        weighted = weighted * fade[:, None] + weights @ values(block).T
        peak = higher
    return peak, total, weighted / total[:, None]
