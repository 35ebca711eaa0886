"""A prefix, queries and tokens with bounded entries, as Theorem 4.1 and its lemma want them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.attention import PrefixError, PrefixState
from attangent.attention.features import FeatureMap


@dataclass(frozen=True)
class BoundedPrefix:
    """Queries Q, tokens K, V and a prefix K_C, V_C: (1, length, d), entries in +-bound.

    Keys and values come from the same rows P, as in P1: K_C = P, and V_C is P with shifted columns.
    So the values depend on the keys, and the prefix's answer does not average out as the prefix grows.
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
        """The error of NTK-Attention with the state of Eq. (7) against prefix attention."""
        state = PrefixState.from_prefix(features, self.K_C, self.V_C, chunk=1024)
        return state.error(self.Q, self.K_C, self.V_C, token_keys=self.K, token_values=self.V)


def uniform(*shape: int, bound: float, seed: int, stream: str) -> Tensor:
    """Numbers uniform in +-bound."""
    return bound * (2 * torch.rand(shape, generator=generator(seed, stream), dtype=torch.float64) - 1)


def error_from(relative: float, value_bound: float) -> float:
    """A bound on the error of attention whose exponentials are off by a relative error of at most `relative`.

    Each weight moves by at most e/(1 - e) of itself on either side, hence the average of values within
    +-value_bound by at most 2 value_bound e/(1 - e).
    """
    return 2 * value_bound * relative / (1 - relative) if relative < 1 else 2 * value_bound
