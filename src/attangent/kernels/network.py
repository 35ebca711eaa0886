"""Two-layer networks: a subclass of the base class defines its tangent, such as the softmax network of P2."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_choice, check_positive, check_size
from attangent._core.deprecation import warn_deprecated
from attangent._core.errors import AttangentError
from attangent.kernels.checks import DEFAULT_MEMORY_LIMIT, as_points, as_targets
from attangent.kernels.data import Init, draw_weights
from attangent.kernels.descent import Trajectory, descend
from attangent.kernels.gram import Method, check_kernel_memory, gram
from attangent.kernels.operator import KernelOperator
from attangent.kernels.tangent import DenseFactor, Factor, Tangent, neuron_blocks

Kind = Literal["exact", "paper"]
_Network = TypeVar("_Network", bound="TwoLayerNetwork")


class TwoLayerNetwork(ABC):
    """F(x) with hidden weights W (p, m) that are trained and output signs a that are fixed.

    Points are rows: X is (n, d_in), outputs and targets are (n, d_out). Kernels are matrices over pairs
    (output, point) in output-major order: row l*n + i is output l at point i.

    Args:
        d_in: Dimension of a point.
        d_out: Number of outputs.
        m: Number of hidden neurons.
        sigma: Standard deviation of the initial weights.
        init: `symmetric` pairs neurons with equal w and opposite a, so that the network starts at zero;
            `independent` draws all of them.
        seed: Seed of the weights.
        dtype: Precision of weights and results.

    Raises:
        AttangentError: If a size is below 1, sigma is not positive, or m is odd for `symmetric`.

    Example:
        >>> from attangent.kernels import SoftmaxNetwork
        >>> network = SoftmaxNetwork(d_in=3, d_out=1, m=64)
        >>> isinstance(network, TwoLayerNetwork), network.forward(torch.eye(3)).shape
        (True, torch.Size([3, 1]))
    """

    d_in: int
    d_out: int
    m: int
    sigma: float
    W: Tensor
    a: Tensor

    def __init__(
        self,
        d_in: int,
        d_out: int,
        m: int,
        sigma: float = 1.0,
        init: Init = "symmetric",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ):
        self.d_in = check_size("d_in", d_in)
        self.d_out = check_size("d_out", d_out)
        self.m = m
        self.sigma = sigma
        self._draw(d_in, d_out, init, seed, dtype)

    def _draw(self, weights: int, signs: int, init: Init, seed: int, dtype: torch.dtype) -> None:
        """Set W (weights, m) and a (signs, m)."""
        check_size("m", self.m)
        check_positive("sigma", self.sigma)
        self.W, self.a = draw_weights(weights, signs, self.m, self.sigma, init, seed, dtype)

    @abstractmethod
    def _tangent(self, X: Tensor) -> Tangent:
        """Return outputs and their gradients at checked points."""

    @property
    @abstractmethod
    def width(self) -> float:
        """The kernel is J J'/width; pass it to `predict_training`."""

    def tangent(self, X: Any, kind: Kind = "exact") -> Tangent:
        """Compute outputs and their gradients in factors.

        Args:
            X: Points (n, d_in).
            kind: `exact`, or `paper` to leave out the direct term as P1 Definition G.1 does.

        Returns:
            The tangent at X.
        """
        check_choice("kind", kind, get_args(Kind))
        tangent = self._tangent(as_points("X", X, self.d_in, self.W))
        return tangent if kind == "exact" else tangent.without_direct()

    def with_weights(self: _Network, W: Any) -> _Network:
        """Return a network with other hidden weights and the same output signs.

        Args:
            W: Hidden weights (p, m).

        Returns:
            A new network; this one is unchanged.

        Raises:
            AttangentError: If W has another shape or entries that are not finite.
        """
        # A shallow copy: the signs a never change and may be shared.
        other = copy.copy(self)
        other.W = as_points("W", W, self.m, self.W)
        if other.W.shape != self.W.shape:
            raise AttangentError(f"W has shape {tuple(other.W.shape)}, expected {tuple(self.W.shape)}")
        return other

    def forward(self, X: Any) -> Float[Tensor, "n d_out"]:
        """Compute the outputs.

        Args:
            X: Points (n, d_in).

        Returns:
            F (n, d_out).
        """
        return self.tangent(X).outputs

    def gradient(self, X: Any, Y: Any) -> Float[Tensor, "p m"]:
        """Compute dL/dW = J'(F - Y) of the loss L = 1/2 |F - Y|^2.

        Args:
            X: Points (n, d_in).
            Y: Targets (n, d_out).

        Returns:
            The gradient (p, m).
        """
        X = as_points("X", X, self.d_in, self.W)
        tangent = self.tangent(X)
        return tangent.pull_back(tangent.outputs - as_targets(Y, X, self.d_out, self.W))

    def features(self, X: Any) -> Float[Tensor, "rows m"]:
        """Compute G[l*n + i, r] = P[i, r] (v[l, r] - mu[i, l]), the factor of x_i in dF[i, l]/dw_r.

        Args:
            X: Points (n, d_in).

        Returns:
            G (d_out n, m).
        """
        return self.tangent(X).features(slice(0, self.m)).flatten(0, 1)

    def kernel(
        self,
        X: Any,
        X2: Any = None,
        kind: Kind = "exact",
        method: Method = "auto",
        memory_limit: float = DEFAULT_MEMORY_LIMIT,
        jobs: int | None = None,
    ) -> Float[Tensor, "rows columns"]:
        """Compute H = J J'/width, the Gram matrix of the output gradients.

        Args:
            X: Points (n, d_in).
            X2: Points of the columns (n2, d_in); None for X.
            kind: `exact`, or `paper` to leave out the direct term as P1 Definition G.1 does.
            method: `auto` picks the fastest of `gemm`, `syrk` (symmetric kernels) and `pairs` (many outputs).
            memory_limit: Most bytes to take.
            jobs: Deprecated and without effect; torch's threads share the work (`torch.set_num_threads`).

        Returns:
            H (d_out n, d_out n2).

        Raises:
            AttangentError: If the matrix needs more than `memory_limit` bytes (checked first).
        """
        if jobs is not None:
            warn_deprecated("kernel(jobs=)", "torch.set_num_threads", "0.3")
        X = as_points("X", X, self.d_in, self.W)
        X2 = None if X2 is None else as_points("X2", X2, self.d_in, self.W)
        # One point's tangent gives the layout, so that memory is checked before n of them are computed.
        layout = self.tangent(X[:1], kind).layout
        right_layout = None if X2 is None else replace(layout, points=len(X2))
        check_kernel_memory(replace(layout, points=len(X)), right_layout, method, memory_limit)
        right = None if X2 is None else self.tangent(X2, kind)
        return gram(self.tangent(X, kind), right, method)

    def kernel_operator(
        self, X: Any, X2: Any = None, kind: Kind = "exact", memory_limit: float = DEFAULT_MEMORY_LIMIT
    ) -> KernelOperator:
        """Return the kernel as an operator that only multiplies: memory grows with n, not n^2.

        Args:
            X: Points (n, d_in).
            X2: Points of the columns (n2, d_in); None for X.
            kind: `exact`, or `paper` to leave out the direct term as P1 Definition G.1 does.
            memory_limit: Most bytes to take.

        Returns:
            A scipy LinearOperator (d_out n, d_out n2).
        """
        left = self.tangent(X, kind)
        right = left if X2 is None else self.tangent(as_points("X2", X2, self.d_in, self.W), kind)
        return KernelOperator(left, right, memory_limit)

    def descend(self, X: Any, Y: Any, rate: float, steps: int, **record: Any) -> Trajectory:
        """Run gradient descent from these weights.

        Args:
            X: Points (n, d_in).
            Y: Targets (n, d_out).
            rate: Learning rate.
            steps: Number of steps.
            **record: `keep` and `drift_at` of `attangent.kernels.descend`.

        Returns:
            Losses, movement and gradient norms of all steps.
        """
        return descend(self, X, Y, rate, steps, **record)


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
