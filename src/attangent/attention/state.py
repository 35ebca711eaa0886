"""A prefix of any length in constant size: Z and k over a feature map."""

from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.attention._inputs import check_prefix, describe
from attangent.attention.features.base import FeatureMap, check_features
from attangent.attention.prefix import reflected

if TYPE_CHECKING:
    from attangent.attention.error import PrefixError

_CHUNK = 4096


class PrefixState(nn.Module):
    """Z (heads, r, dv) and k (heads, r) in (e^A v + phi(q) Z) / (e^A 1 + phi(q) k) (P1 Algorithm 2).

    Parameters, all trained: `Z`, or `Z_A` (heads, r, rank) and `Z_B` (heads, rank, dv) with Z = Z_A Z_B, and
    `mass`. Where the map is positive k is |mass|, with the slope 1 at 0, so that phi(q) k stays positive
    however the state is trained and a state that starts at zero can still move; otherwise k is mass.

    >>> from attangent.attention.features import Elu
    >>> state = PrefixState.from_prefix(Elu(4), torch.randn(2, 1000, 4), torch.randn(2, 1000, 4))
    >>> state.number_of_floats
    40
    """

    def __init__(self, features: FeatureMap, Z: Tensor | tuple[Tensor, Tensor], k: Tensor):
        super().__init__()
        self.features = check_features(features)
        Z_A, Z_B = Z if isinstance(Z, tuple) else (Z, None)
        _check_weights(features, Z_A, Z_B, k)
        if Z_B is None:
            self.Z_full: nn.Parameter | None = nn.Parameter(Z_A.detach().clone())
        else:
            self.Z_full = None
            self.Z_A, self.Z_B = nn.Parameter(Z_A.detach().clone()), nn.Parameter(Z_B.detach().clone())
        self.mass = nn.Parameter(k.detach().clone())

    @classmethod
    def zero(
        cls,
        features: FeatureMap,
        heads: int,
        value_dim: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> "PrefixState":
        """Z = 0, k = 0: attention as if there were no prefix, bit for bit."""
        check_features(features)
        _check_dtype(dtype)
        dim = features.dim if value_dim is None else check_size("value_dim", value_dim)
        shape = check_size("heads", heads), features.size
        check_memory("a prefix state", heads=heads, size=features.size, value_dim=dim)
        return cls(features, torch.zeros(*shape, dim, dtype=dtype), torch.zeros(shape, dtype=dtype))

    @classmethod
    def low_rank(
        cls,
        features: FeatureMap,
        heads: int,
        rank: int,
        seed: int,
        value_dim: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> "PrefixState":
        """Z = Z_A Z_B with Z_A ~ N(0, 1), Z_B = 0, and k = 0 (P1 Appendix C): no prefix at the start."""
        check_features(features)
        _check_dtype(dtype)
        dim = features.dim if value_dim is None else check_size("value_dim", value_dim)
        shape = check_size("heads", heads), features.size, check_size("rank", rank)
        check_memory("a prefix state", heads=heads, rank=rank, size_and_value_dim=features.size + dim)
        drawn = torch.randn(shape, generator=generator(seed, "low rank Z"), dtype=torch.float64)
        factors = drawn.to(dtype), torch.zeros(heads, rank, dim, dtype=dtype)
        return cls(features, factors, torch.zeros(shape[:2], dtype=dtype))

    @classmethod
    def from_prefix(
        cls, features: FeatureMap, keys: Tensor, values: Tensor, chunk: int = _CHUNK
    ) -> "PrefixState":
        """Z = sum_j phi(K_j) V_j', k = sum_j phi(K_j) (P1 Eq. 7); keys (heads, m, d), values (heads, m, dv).

        The sum runs over chunks of the prefix, so that the features never exist all at once.
        """
        keys, values = _checked_pair(features, keys, values)
        pairs = zip(keys.split(check_size("chunk", chunk), dim=1), values.split(chunk, dim=1), strict=True)
        return cls.from_chunks(features, pairs)

    @classmethod
    def from_chunks(cls, features: FeatureMap, chunks: Iterable[tuple[Tensor, Tensor]]) -> "PrefixState":
        """`from_prefix` for a prefix that arrives in pieces (keys, values) and need not fit into memory."""
        Z = k = None
        with torch.no_grad():
            for chunk in chunks:
                if not isinstance(chunk, tuple | list) or len(chunk) != 2:
                    raise AttangentError(f"a chunk is {type(chunk).__name__}, expected a pair (keys, values)")
                keys, values = _checked_pair(features, *chunk)
                phi = features.encode(keys)
                Z = phi.mT @ values if Z is None else torch.baddbmm(Z, phi.mT, values)
                k = phi.sum(dim=1) if k is None else k + phi.sum(dim=1)
        if Z is None or k is None:
            raise AttangentError(
                "the prefix has no chunk, expected at least one: use PrefixState.zero for none"
            )
        return cls(features, Z, k)

    @classmethod
    def fit(
        cls, features: FeatureMap, keys: Tensor, values: Tensor, queries: Tensor, **options: Any
    ) -> "PrefixState":
        """The state closest to a given prefix on sample queries; see `fit.fit_state` for the options."""
        from attangent.attention.fit import fit_state

        return fit_state(features, keys, values, queries, **options)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "PrefixState":
        """The state in a file that `save` wrote."""
        from attangent.attention.files import load_state

        return load_state(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state and its map to a safetensors file, whole or not at all."""
        from attangent.attention.files import save_state

        save_state(self, path)

    @property
    def Z(self) -> Tensor:
        """Z (heads, r, dv)."""
        full = self.Z_full
        return self.Z_A @ self.Z_B if full is None else full

    @property
    def k(self) -> Tensor:
        """k (heads, r), never negative where the map is positive."""
        return reflected(self.mass) if self.features.positive else self.mass

    def weights(self) -> tuple[Tensor, Tensor]:
        """Z and mass, as `Prefix` wants them."""
        return self.Z, self.mass

    @property
    def heads(self) -> int:
        return self.mass.shape[0]

    @property
    def number_of_floats(self) -> int:
        """How many numbers the state holds, those of a trained map included."""
        return sum(parameter.numel() for parameter in self.parameters())

    def add(self, other: "PrefixState") -> "PrefixState":
        """The state of both prefixes together: Z and k add up; different anchors stand side by side."""
        joined = self.features.joined(other.features)
        Z, k, other_Z, other_k = self.Z, self.k, other.Z, other.k
        if Z.shape[0] != other_Z.shape[0] or Z.shape[2] != other_Z.shape[2]:
            raise AttangentError(
                f"states with Z {tuple(Z.shape)} and {tuple(other_Z.shape)} cannot be added, "
                "expected equal heads and value sizes"
            )
        if joined is None:
            return PrefixState(self.features, Z + other_Z, k + other_k)
        return PrefixState(joined, torch.cat([Z, other_Z], dim=1), torch.cat([k, other_k], dim=1))

    def error(self, queries: Tensor, keys: Tensor, values: Tensor, **tokens: Any) -> "PrefixError":
        """The distance to attention with the prefix itself; see `error.prefix_error`."""
        from attangent.attention.error import prefix_error

        return prefix_error(self, queries, keys, values, **tokens)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, Z={tuple(self.Z.shape)}"


def _check_dtype(dtype: Any) -> None:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise AttangentError(f"dtype is {dtype!r}, expected a floating point dtype such as torch.float32")


def _check_weights(features: FeatureMap, Z_A: Any, Z_B: Any, k: Any) -> None:
    tensors = [Z_A, k] if Z_B is None else [Z_A, Z_B, k]
    if not all(isinstance(tensor, Tensor) and tensor.is_floating_point() for tensor in tensors):
        raise AttangentError(
            f"Z and k are {', '.join(map(describe, tensors))}, expected floating point tensors"
        )
    heads = k.shape[0] if k.ndim == 2 else 0
    wanted = (heads, features.size)
    fits = k.shape == wanted and Z_A.ndim == 3 and Z_A.shape[:2] == wanted
    if heads == 0 or not fits or (Z_B is not None and Z_B.shape[:2] != (heads, Z_A.shape[2])):
        shapes = " x ".join(str(tuple(tensor.shape)) for tensor in tensors[:-1])
        raise AttangentError(
            f"Z is {shapes} and k {tuple(k.shape)}, expected Z (heads, {features.size}, value size) "
            f"and k (heads, {features.size}) for {features!r}"
        )
    if not all(torch.isfinite(tensor).all() for tensor in tensors):
        raise AttangentError("Z or k has NaN or infinite entries")
    if features.positive and (k < 0).any():
        raise AttangentError(
            f"k has entries down to {k.min().item():.3g}, expected none below 0: {features!r} is positive "
            "and phi(q) k must be"
        )


def _checked_pair(features: FeatureMap, keys: Any, values: Any) -> tuple[Tensor, Tensor]:
    keys = check_prefix("keys", keys, columns=check_features(features).dim)
    values = check_prefix("values", values, heads=keys.shape[0])
    if keys.shape[1] != values.shape[1]:
        raise AttangentError(
            f"the prefix has {keys.shape[1]} keys and {values.shape[1]} values, expected as many"
        )
    if not (torch.isfinite(keys).all() and torch.isfinite(values).all()):
        raise AttangentError("keys or values of the prefix have NaN or infinite entries")
    return keys, values
