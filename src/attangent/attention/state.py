"""A prefix of any length in constant size: Z and k over a feature map."""

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor, nn

from attangent._core.checks import check_memory, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.attention._inputs import check_pair, check_prefix, check_scale, describe
from attangent.attention.backends.torch.portable import attend_in_chunks, merge_prefix
from attangent.attention.features.base import FeatureMap, check_features
from attangent.attention.files import load_state, save_state
from attangent.attention.fit import fit_weights
from attangent.attention.prefix import reflected
from attangent.attention.shapes import StateMass, StateZ

_CHUNK = 4096


@dataclass(frozen=True)
class PrefixError:
    """Entrywise distance of two attention outputs.

    Attributes:
        sup: Largest absolute difference.
        mean: Mean absolute difference.

    Example:
        >>> PrefixError(sup=0.5, mean=0.1).sup
        0.5
    """

    sup: float
    mean: float


class PrefixState(nn.Module):
    """Z (heads, r, dv) and k (heads, r) in (e^A v + phi(q) Z) / (e^A 1 + phi(q) k) (P1 Algorithm 2).

    All weights are trained: `Z_full`, or `Z_A` (heads, r, rank) and `Z_B` (heads, rank, dv) with
    Z = Z_A Z_B, and `mass`. For a positive map k is |mass| with slope 1 at 0. So phi(q) k stays positive
    however the state is trained, and a state that starts at zero can still move. Otherwise k is mass.

    Args:
        features: The feature map phi.
        Z: Z (heads, r, dv), or its two factors.
        k: Masses (heads, r); not negative if the map is positive.

    Raises:
        AttangentError: If the weights do not fit the map or each other, or are not finite.

    Example:
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
            self.Z_A = nn.Parameter(Z_A.detach().clone())
            self.Z_B = nn.Parameter(Z_B.detach().clone())
        self.mass = nn.Parameter(k.detach().clone())

    @classmethod
    def zero(
        cls,
        features: FeatureMap,
        heads: int,
        value_dim: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> "PrefixState":
        """Return Z = 0, k = 0: attention as if there were no prefix, bit for bit.

        Args:
            features: The feature map phi.
            heads: Number of heads.
            value_dim: Size dv of the values; that of the keys by default.
            dtype: Dtype of the weights.

        Returns:
            The state.

        Raises:
            AttangentError: If a size is below 1 or the state would not fit into memory.
        """
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
        """Return Z = Z_A Z_B with Z_A ~ N(0, 1), Z_B = 0, and k = 0 (P1 Appendix C): no prefix at first.

        Args:
            features: The feature map phi.
            heads: Number of heads.
            rank: Rank of Z.
            seed: Seed of Z_A.
            value_dim: Size dv of the values; that of the keys by default.
            dtype: Dtype of the weights.

        Returns:
            The state.

        Raises:
            AttangentError: If a size is below 1 or the state would not fit into memory.
        """
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
        """Sum Z = sum_j phi(K_j) V_j' and k = sum_j phi(K_j) over a prefix (P1 Eq. 7).

        Args:
            features: The feature map phi.
            keys: Keys (heads, m, d), or (m, d) for one head.
            values: Values (heads, m, dv), or (m, dv) for one head.
            chunk: Tokens whose features exist at once.

        Returns:
            The state.

        Raises:
            AttangentError: If keys and values do not fit together or are not finite.
        """
        keys, values = check_pair(keys, values, check_features(features).dim)
        pairs = zip(keys.split(check_size("chunk", chunk), dim=1), values.split(chunk, dim=1), strict=True)
        return cls.from_chunks(features, pairs)

    @classmethod
    def from_chunks(cls, features: FeatureMap, chunks: Iterable[tuple[Tensor, Tensor]]) -> "PrefixState":
        """Sum a prefix that arrives in pieces and need not fit into memory.

        Args:
            features: The feature map phi.
            chunks: Pairs of keys (heads, m, d) and values (heads, m, dv).

        Returns:
            The state that `from_prefix` gives for the concatenated pieces.

        Raises:
            AttangentError: If there is no chunk, or keys and values do not fit together or are not finite.
        """
        Z = k = None
        with torch.no_grad():
            for keys, values in chunks:
                keys, values = check_pair(keys, values, check_features(features).dim)
                if not (torch.isfinite(keys).all() and torch.isfinite(values).all()):
                    raise AttangentError("keys or values of the prefix have NaN or infinite entries")
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
        cls,
        features: FeatureMap,
        keys: Tensor,
        values: Tensor,
        queries: Tensor,
        *,
        token_logsumexp: Tensor | None = None,
        ridge: float = 1e-4,
        scale: float | None = None,
    ) -> "PrefixState":
        """Fit the state to a prefix on sample queries: least squares of [e^l o | e^l] on phi(q) per head.

        l and o are the logsumexp and the output of attention to the prefix. Rows are weighted by
        1/(e^l + e^t), which makes the residual the error of the merged output.

        Args:
            features: The feature map phi.
            keys: Keys of the prefix (heads, m, d).
            values: Values of the prefix (heads, m, dv).
            queries: Sample queries (heads, n, d).
            token_logsumexp: Logsumexp t (heads, n) of the tokens that the queries see besides the prefix;
                None for no tokens.
            ridge: Ridge penalty, relative to the mean square of each feature.
            scale: Factor of the logits; 1/sqrt d by default.

        Returns:
            The state. For a positive map its masses are non-negative; for a signed map phi(q) k is at least
            a tenth of the true mass on every sample.

        Raises:
            AttangentError: If shapes do not fit, or no masses of a signed map keep phi(q) k positive.
        """
        keys, values = check_pair(keys, values, check_features(features).dim)
        queries = check_prefix("queries", queries, heads=keys.shape[0], columns=keys.shape[2])
        check_positive("ridge", ridge)
        factor = check_scale(scale, queries.shape[-1])
        with torch.no_grad():
            Z, k = fit_weights(features, keys, values, queries, token_logsumexp, ridge, factor)
        return cls(features, Z.to(values.dtype), k.to(values.dtype))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "PrefixState":
        """Read a state from a file that `save` wrote.

        Args:
            path: A safetensors file.

        Returns:
            The state.

        Raises:
            AttangentError: If the file is missing or is not a prefix state.
        """
        return cls(*load_state(path))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state and its map to a safetensors file, whole or not at all.

        Args:
            path: The file to write.

        Raises:
            AttangentError: If the file cannot be written.
        """
        save_state(path, self.features, {**self.state_dict(), "mass": self.k})

    @property
    def Z(self) -> StateZ:
        """Z (heads, r, dv)."""
        full = self.Z_full
        return self.Z_A @ self.Z_B if full is None else full

    @property
    def k(self) -> StateMass:
        """k (heads, r), never negative if the map is positive."""
        return reflected(self.mass) if self.features.positive else self.mass

    def weights(self) -> tuple[StateZ, StateMass]:
        """Return Z (heads, r, dv) and mass (heads, r)."""
        return self.Z, self.mass

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.mass.shape[0]

    @property
    def number_of_floats(self) -> int:
        """Number of trained floats in the state, including those of the map."""
        return sum(parameter.numel() for parameter in self.parameters())

    def add(self, other: "PrefixState") -> "PrefixState":
        """Combine two prefixes: Z and k add up; different anchors are concatenated.

        Args:
            other: A state with equal heads and value size, and the same map or anchors.

        Returns:
            The state of both prefixes.

        Raises:
            AttangentError: If the two states cannot be combined.
        """
        joined = self.features.joined(other.features)
        Z = self.Z
        k = self.k
        other_Z = other.Z
        if Z.shape[0] != other_Z.shape[0] or Z.shape[2] != other_Z.shape[2]:
            raise AttangentError(
                f"states with Z {tuple(Z.shape)} and {tuple(other_Z.shape)} cannot be added, "
                "expected equal heads and value sizes"
            )
        if joined is None:
            return PrefixState(self.features, Z + other_Z, k + other.k)
        return PrefixState(joined, torch.cat([Z, other_Z], dim=1), torch.cat([k, other.k], dim=1))

    def error(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        token_keys: Tensor | None = None,
        token_values: Tensor | None = None,
        scale: float | None = None,
    ) -> PrefixError:
        """Measure the error of attention with this state against attention with the prefix itself.

        Args:
            queries: Queries (heads, n, d).
            keys: Keys of the prefix (heads, m, d).
            values: Values of the prefix (heads, m, dv).
            token_keys: Keys (heads, L, d) of tokens after the prefix; None for no tokens.
            token_values: Values (heads, L, dv) of these tokens.
            scale: Factor of the logits; 1/sqrt d by default.

        Returns:
            The largest and the mean absolute difference.

        Raises:
            AttangentError: If shapes do not fit together.
        """
        keys, values = check_pair(keys, values)
        queries = check_prefix("queries", queries, heads=keys.shape[0], columns=keys.shape[2])
        local_k = keys[:, :0]
        local_v = values[:, :0]
        if (token_keys is None) != (token_values is None):
            raise AttangentError("token_keys and token_values belong together, expected both or neither")
        if token_keys is not None and token_values is not None:
            local_k, local_v = check_pair(token_keys, token_values, names=("token_keys", "token_values"))
            check_prefix("token_keys", local_k, *keys.shape[::2])
            check_prefix("token_values", local_v, *values.shape[::2])
        with torch.no_grad():
            scale = check_scale(scale, queries.shape[-1])
            all_keys = torch.cat([keys, local_k], dim=1)
            exact, _ = attend_in_chunks(queries, all_keys, torch.cat([values, local_v], dim=1), scale)
            output, lse = attend_in_chunks(queries, local_k, local_v, scale)
            with_state = merge_prefix(queries[None], output[None], lse[None], self, scale)[0]
        gap = (with_state - exact).abs()
        return PrefixError(gap.max().item(), gap.mean().item())

    def extra_repr(self) -> str:
        """Return the shapes for `repr`."""
        return f"heads={self.heads}, Z={tuple(self.Z.shape)}"


def _check_weights(features: FeatureMap, Z_A: Tensor, Z_B: Tensor | None, k: Tensor) -> None:
    tensors = [Z_A, k] if Z_B is None else [Z_A, Z_B, k]
    if not all(tensor.is_floating_point() for tensor in tensors):
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
