"""What all two-layer networks of this room share: weights, gradient, kernel, operator, descent.

A network says what its tangent is; the rest follows from that. Index letters, here and in the whole room:
n points (i, j), l and k outputs, r neurons, p coordinates of a neuron's weights.
"""

import copy
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent._core.errors import AttangentError
from attangent.kernels._inputs import as_points, as_targets
from attangent.kernels.descent import Trajectory, descend
from attangent.kernels.gram import Method, check_memory, gram
from attangent.kernels.initial import Init, draw_weights
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.kernels.operator import KernelOperator
from attangent.kernels.tangent import Tangent

Kind = Literal["exact", "paper"]


class TwoLayerNetwork(ABC):
    """A network with hidden weights W (p, m) that are trained and signs a that are not.

    `symmetric` initialisation makes pairs of neurons with equal w and opposite a, so that it starts at zero;
    `independent` draws all of them. W is normal with deviation sigma.

    Points are rows: X is (n, d_in), outputs and targets are (n, d_out). Kernels are matrices over pairs
    (output, point) in output-major order: row l*n + i is output l at point i.
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
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.m, self.sigma = m, sigma
        self._draw(d_in, d_out, init, seed, dtype)

    def _draw(self, weights: int, signs: int, init: Init, seed: int, dtype: torch.dtype) -> None:
        """Set W (weights, m) and a (signs, m)."""
        check_size("m", self.m)
        check_positive("sigma", self.sigma)
        self.W, self.a = draw_weights(weights, signs, self.m, self.sigma, init, seed, dtype)

    @abstractmethod
    def _tangent(self, X: Tensor) -> Tangent:
        """Outputs and their gradients at checked points."""

    @property
    @abstractmethod
    def width(self) -> float:
        """The kernel is J J'/width: pass it to `predict_training`."""

    def tangent(self, X: Any, kind: Kind = "exact") -> Tangent:
        """Outputs and their gradients at X, in factors."""
        if kind not in get_args(Kind):
            raise AttangentError(f"kind is {kind!r}, expected one of {', '.join(get_args(Kind))}")
        tangent = self._tangent(as_points("X", X, self.d_in, self.W))
        return tangent if kind == "exact" else tangent.without_direct()

    def with_weights(self, W: Tensor) -> Self:
        """This network with other hidden weights, the same output weights."""
        other = copy.copy(self)
        other.W = as_points("W", W, self.m, self.W)
        if other.W.shape != self.W.shape:
            raise AttangentError(f"W has shape {tuple(other.W.shape)}, expected {tuple(self.W.shape)}")
        return other

    def forward(self, X: Any) -> Tensor:
        """F (n, d_out)."""
        return self.tangent(X).outputs

    def gradient(self, X: Any, Y: Any) -> Tensor:
        """dL/dW (p, m) of the loss L = 1/2 |F - Y|^2: J'(F - Y)."""
        X = as_points("X", X, self.d_in, self.W)
        tangent = self.tangent(X)
        return tangent.pull_back(tangent.outputs - as_targets(Y, X, self.d_out, self.W))

    def features(self, X: Any) -> Tensor:
        """G[l*n + i, r] = P[i, r] (v[l, r] - mu[i, l]): the factor of x_i in dF[i, l]/dw_r."""
        return self.tangent(X).features(slice(0, self.m)).flatten(0, 1)

    def kernel(
        self,
        X: Any,
        X2: Any = None,
        kind: Kind = "exact",
        method: Method = "auto",
        memory_limit: float = DEFAULT_MEMORY_LIMIT,
        jobs: int | None = 1,
    ) -> Tensor:
        """H (d_out n, d_out n2) = J J'/width, the Gram matrix of the output gradients.

        `kind="paper"` leaves out what P1 Definition G.1 leaves out (nothing in the other networks); `method`
        is explained in `attangent.kernels.gram`. A matrix that needs more than `memory_limit` bytes is
        refused before any work. `jobs` spreads blocks of neurons over joblib's workers.
        """
        X = as_points("X", X, self.d_in, self.W)
        X2 = None if X2 is None else as_points("X2", X2, self.d_in, self.W)
        one = self.tangent(X[:1], kind).layout
        sizes = replace(one, points=len(X)), None if X2 is None else replace(one, points=len(X2))
        check_memory(*sizes, method, memory_limit, jobs)
        right = None if X2 is None else self.tangent(X2, kind)
        return gram(self.tangent(X, kind), right, method, jobs)

    def kernel_operator(
        self, X: Any, X2: Any = None, kind: Kind = "exact", memory_limit: float = DEFAULT_MEMORY_LIMIT
    ) -> KernelOperator:
        """The same matrix as a scipy LinearOperator that only multiplies: memory grows with n, not n^2."""
        left = self.tangent(X, kind)
        right = left if X2 is None else self.tangent(as_points("X2", X2, self.d_in, self.W), kind)
        return KernelOperator(left, right, memory_limit)

    def descend(self, X: Any, Y: Any, rate: float, steps: int, **record: Any) -> Trajectory:
        """Gradient descent from these weights; `descent.descend` says what it records."""
        return descend(self, X, Y, rate, steps, **record)
