"""Bounded prefixes, Algorithms 3 and 4 as printed, and a count of their multiplications."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attangent._core.random import generator
from attangent.attention import PrefixError, PrefixState
from attangent.attention.features import FeatureMap


@dataclass(frozen=True)
class BoundedPrefix:
    """Queries Q, tokens K, V and a prefix K_C, V_C, each (1, length, d), with entries in [-bound, bound].

    Keys and values come from the same rows P, as in P1: K_C = P, and V_C is P with shifted columns.
    The values thus depend on the keys, and the output does not average out as the prefix grows.
    """

    Q: Tensor
    K: Tensor
    V: Tensor
    K_C: Tensor
    V_C: Tensor

    @classmethod
    def draw(cls, m: int, L: int, d: int, bound: float, seed: int) -> "BoundedPrefix":
        P, X, Q = (
            uniform(1, n, d, bound=bound, seed=seed, stream=f"{name}, m = {m}")
            for name, n in (("prefix", m), ("tokens", L), ("queries", L))
        )
        return cls(Q, X, X.roll(1, dims=-1), P, P.roll(1, dims=-1))

    def error(self, features: FeatureMap) -> PrefixError:
        """Return the distance of NTK-Attention, with Z and k from Eq. (7), from prefix attention."""
        state = PrefixState.from_prefix(features, self.K_C, self.V_C, chunk=1024)
        return state.error(self.Q, self.K_C, self.V_C, token_keys=self.K, token_values=self.V)


def uniform(*shape: int, bound: float, seed: int, stream: str) -> Tensor:
    """Draw uniform numbers in [-bound, bound]."""
    return bound * (2 * torch.rand(shape, generator=generator(seed, stream), dtype=torch.float64) - 1)


def error_from(relative: float, value_bound: float) -> float:
    """2 v e/(1 - e): bound the error of attention whose exponentials have a relative error of at most e.

    Each weight changes by at most a fraction e/(1 - e). So an average of values in [-v, v] changes by at most
    2 v e/(1 - e).
    """
    return 2 * value_bound * relative / (1 - relative) if relative < 1 else 2 * value_bound


def drawn(*shape: int, seed: int, stream: str) -> Tensor:
    """Draw standard normal numbers from the named random stream."""
    return torch.randn(shape, generator=generator(seed, stream), dtype=torch.float64)


def algorithm_3(X: Tensor, P: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> Tensor:
    """D^-1 A V with S = [P; X], A = exp(X W_Q (S W_K)'/sqrt d), V = S W_V: Algorithm 3, line by line."""
    S = torch.cat([P, X])
    Q = X @ W_Q
    K = S @ W_K
    V = S @ W_V
    A = torch.exp(Q @ K.T / math.sqrt(X.shape[1]))
    D = A @ torch.ones_like(S[:, :1])
    return (A @ V) / D


def algorithm_4(
    X: Tensor, Z: Tensor, k: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, phi: FeatureMap
) -> Tensor:
    """D^-1 (A V + phi(Q) Z) with D = diag(A 1 + phi(Q) k): Algorithm 4, line by line."""
    Q = X @ W_Q
    K = X @ W_K
    V = X @ W_V
    A = torch.exp(Q @ K.T / math.sqrt(X.shape[1]))
    D = A @ torch.ones_like(X[:, :1]) + phi(Q) @ k.unsqueeze(1)
    return (A @ V + phi(Q) @ Z) / D


def printed_count_3(L: int, m: int, d: int) -> int:
    """Add up the costs printed next to the lines of Algorithm 3, without the O."""
    return L * d**2 + 2 * (m + L) * d**2 + L * (m + L) * d + L * (m + L) + L * (m + L) * d + L**2 * d


def printed_count_4(L: int, d: int, r: int) -> int:
    """Add up the costs printed next to the lines of Algorithm 4, without the O."""
    return 3 * L * d**2 + L**2 * d + L**2 + L * r + 2 * L**2 * d + L * r**2


def multiplications(algorithm: Callable[..., Any], *inputs: Tensor, **rest: Any) -> int:
    """Count the multiplications in the matrix products of `algorithm` for these inputs."""
    with FlopCounterMode(display=False) as counter:
        algorithm(*inputs, **rest)
    return counter.get_total_flops() // 2


def _shaped(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.empty(shape, device="meta") for shape in shapes]


def count_3(L: int, m: int, d: int) -> int:
    """Count the multiplications of Algorithm 3 with a prefix of m rows."""
    return multiplications(algorithm_3, *_shaped((L, d), (m, d), (d, d), (d, d), (d, d)))


def count_4(L: int, d: int, phi: FeatureMap, Z: tuple[int, ...], k: tuple[int, ...]) -> int:
    """Count the multiplications of Algorithm 4 with Z and k of these shapes."""
    return multiplications(algorithm_4, *_shaped((L, d), Z, k, (d, d), (d, d), (d, d)), phi=phi)


def last_exponent(sizes: Sequence[int], counts: Sequence[float]) -> float:
    """Return the slope of log count over log size between the last two sizes."""
    return math.log(counts[-1] / counts[-2]) / math.log(sizes[-1] / sizes[-2])
