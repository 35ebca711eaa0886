"""The interface of a prefix, and prefixes with a different number of tokens per head."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attangent._core.errors import AttangentError
from attangent.attention._inputs import check_softcap, describe
from attangent.attention.features.base import FeatureMap
from attangent.attention.features.exponential import Anchors
from attangent.attention.shapes import StateMass, StateZ, TokenKeys, TokenMass, TokenZ

_Ragged = TypeVar("_Ragged", bound="RaggedTokens")
# Heads whose sizes differ by at most this many tokens, or by a quarter, are computed together.
_SIMILAR = 16


@runtime_checkable
class Prefix(Protocol):
    """Any object with a feature map of size r and weights Z (heads, r, dv) and mass (heads, r).

    The number of heads divides that of the queries; consecutive query heads share one. For a positive map
    the masses enter as k = |mass|, otherwise unchanged. `PrefixState` and `RaggedState` are prefixes.

    Attributes:
        features: The feature map phi.

    Example:
        >>> from attangent.attention import PrefixState
        >>> from attangent.attention.features import Elu
        >>> prefix: Prefix = PrefixState.zero(Elu(4), heads=2)
        >>> [tuple(weight.shape) for weight in prefix.weights()]
        [(2, 4, 4), (2, 4)]
    """

    @property
    def features(self) -> FeatureMap: ...

    def weights(self) -> tuple[StateZ, StateMass]:
        """Return Z (heads, r, dv) and mass (heads, r)."""
        ...


class PrefixWeights(NamedTuple):
    """A prefix with a given Z and mass."""

    features: FeatureMap
    Z: StateZ
    mass: StateMass

    def weights(self) -> tuple[StateZ, StateMass]:
        return self.Z, self.mass


def reflected(mass: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return |mass| with slope 1 at 0: the slope 0 of abs would freeze masses there."""
    return torch.where(mass < 0, -mass, mass)


def by_state_head(
    x: Float[Tensor, "batch heads length dim"], heads: int
) -> Float[Tensor, "batch {heads} rows dim"]:
    """Reshape (B, H, L, d) to (B, heads, (H/heads) L, d): the queries of each head of the state."""
    batch, all_heads, length, dim = x.shape
    return x if heads == all_heads else x.reshape(batch, heads, all_heads // heads * length, dim)


def query_gain(scale: float, dim: int) -> float:
    """Return the factor of q that turns exp(q.k/sqrt d) into exp(scale q.k); exactly 1 by default."""
    gain = scale * math.sqrt(dim)
    return 1.0 if math.isclose(gain, 1, rel_tol=1e-12) else gain


def largest_exponent(*dtypes: torch.dtype) -> float:
    """Return a cap on the exponent of a prefix's weight that leaves room for large masses and gradients.

    The narrowest dtype decides: gradients computed in float64 may be those of float32 weights.
    """
    return 600.0 if all(dtype == torch.float64 for dtype in dtypes) else 60.0


class PlacedAnchors(Anchors):
    """Anchors at given keys (heads, r, d); gradients flow through to the source of the keys."""

    def __init__(self, keys: Float[Tensor, "heads size dim"], softcap: float | None = None):
        nn.Module.__init__(self)
        self.dim = keys.shape[-1]
        self.size = keys.shape[-2]
        self.softcap = softcap
        self.keys = keys  # type: ignore[assignment]
        self.damping = None


class HeadGroup(NamedTuple):
    """Heads of similar size and their prefix, with the indices of their query and token heads."""

    queries: Any
    keys: Any
    prefix: PrefixWeights

    def masked(self, mask: Tensor | None) -> Tensor | None:
        """Return the mask of these query heads."""
        per_head = mask is not None and mask.ndim > 2 and mask.shape[-3] > 1
        return mask[..., self.queries, :, :] if per_head else mask  # type: ignore[index]


class RaggedTokens:
    """A prefix of r_h virtual tokens for head h, of given tensors; gradients flow through to their source.

    Head h adds sum_j e^(q.c_j/sqrt d) Z_j to the numerator and sum_j e^(q.c_j/sqrt d) |mass_j| to the
    denominator of attention. `features` and `weights` pad with tokens of no mass; attention uses `groups`
    instead, which hardly pad.

    Args:
        keys: Keys c (R, d) of all heads, head after head; R = sum r_h.
        Z: Masses times values (R, dv).
        mass: Masses (R).
        sizes: Number of tokens per head; they sum to R.
        softcap: Cap of the logits, cap tanh(logit/cap); None for no cap.

    Example:
        >>> keys = [torch.randn(size, 4) for size in (3, 7)]
        >>> RaggedTokens.of(keys, keys, [torch.ones(3), torch.ones(7)]).sizes
        (3, 7)
    """

    def __init__(
        self, keys: TokenKeys, Z: TokenZ, mass: TokenMass, sizes: Sequence[int], softcap: float | None = None
    ):
        self.sizes = tuple(sizes)
        self.softcap = check_softcap(softcap)
        self._tokens = keys, Z, mass

    @classmethod
    def of(
        cls: "type[_Ragged]",
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        masses: Sequence[Tensor],
        softcap: float | None = None,
    ) -> _Ragged:
        """Build the prefix from separate tensors per head.

        Args:
            keys: Keys (r_h, d) per head.
            values: Values (r_h, dv) per head.
            masses: Masses (r_h) per head.
            softcap: Cap of the logits; None for no cap.

        Returns:
            The prefix of all heads.

        Raises:
            AttangentError: If the tensors do not fit together.
        """
        _check_heads(keys, values, masses)
        mass = torch.cat(list(masses))
        Z = torch.cat(list(values)) * mass.unsqueeze(-1)
        return cls(torch.cat(list(keys)), Z, mass, [len(each) for each in keys], softcap)

    def tokens(self) -> tuple[TokenKeys, TokenZ, TokenMass]:
        """Return keys (R, d), Z (R, dv) and mass (R) of all heads, head after head."""
        return self._tokens

    @property
    def heads(self) -> int:
        """Number of heads."""
        return len(self.sizes)

    @property
    def features(self) -> PlacedAnchors:
        """The anchors of all heads, padded to the longest."""
        return PlacedAnchors(self._padded(self.tokens()[0]), self.softcap)

    def weights(self) -> tuple[StateZ, StateMass]:
        """Return Z (heads, r, dv) and mass (heads, r), padded to the longest head."""
        _, Z, mass = self.tokens()
        return self._padded(Z), self._padded(mass)

    def by_head(self) -> list[tuple[TokenKeys, TokenZ, TokenMass]]:
        """Return keys (r_h, d), values (r_h, dv) and masses (r_h) per head."""
        keys, Z, mass = self.tokens()
        masses = reflected(mass)
        values = Z / torch.where(masses == 0, 1, masses).unsqueeze(-1)
        return list(zip(*(each.split(self.sizes) for each in (keys, values, masses)), strict=True))

    def groups(self, heads: int, token_heads: int) -> list[HeadGroup]:
        """Return the groups for `heads` query heads, of which consecutive ones share a token head."""
        if heads % self.heads or heads % token_heads:
            raise AttangentError(f"the state has {self.heads} heads and q has {heads}, expected a divisor")
        per_state = heads // self.heads
        per_token = heads // token_heads
        if per_state % per_token and per_token % per_state:
            raise AttangentError(
                f"the state has {self.heads} heads and the tokens {token_heads}, expected that one number "
                "divides the other"
            )
        token_count = max(1, per_state // per_token)
        pieces = [tensor.split(self.sizes) for tensor in self.tokens()]
        groups = []
        for members in similar_heads(self.sizes):
            keys, Z, mass = (stacked([tensor[head] for head in members]) for tensor in pieces)
            prefix = PrefixWeights(PlacedAnchors(keys, self.softcap), Z, mass)
            queries = [head * per_state + i for head in members for i in range(per_state)]
            tokens = [head * per_state // per_token + i for head in members for i in range(token_count)]
            groups.append(HeadGroup(_index(queries), _index(tokens), prefix))
        return groups

    def _padded(self, tokens: Tensor) -> Tensor:
        return stacked(list(tokens.split(self.sizes)))


def _check_heads(keys: Sequence[Tensor], values: Sequence[Tensor], masses: Sequence[Tensor]) -> None:
    if not len(keys) == len(values) == len(masses) > 0:
        raise AttangentError(
            f"there are keys for {len(keys)} heads, values for {len(values)} and masses for {len(masses)}, "
            "expected lists with one tensor per head"
        )
    for head, (c, u, mass) in enumerate(zip(keys, values, masses, strict=True)):
        floating = all(t.is_floating_point() for t in (c, u, mass))
        if not floating or (c.ndim, u.ndim, mass.ndim) != (2, 2, 1) or not len(c) == len(u) == len(mass) > 0:
            raise AttangentError(
                f"head {head} has keys {describe(c)}, values {describe(u)} and masses {describe(mass)}, "
                "expected floating point tensors (r, d), (r, dv) and (r) with r at least 1"
            )
        if (c.shape[1], u.shape[1]) != (keys[0].shape[1], values[0].shape[1]):
            raise AttangentError(
                f"head {head} has keys of size {c.shape[1]} and values of size {u.shape[1]}, expected "
                f"{keys[0].shape[1]} and {values[0].shape[1]} as head 0 has"
            )


def joined_heads(outs: Sequence[Tensor], groups: Sequence[HeadGroup]) -> Tensor:
    """Concatenate the outputs of all groups and restore the order of the heads."""
    if len(outs) == 1:
        return outs[0]
    order = [head for group in groups for head in _indices(group.queries)]
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.cat(list(outs), dim=1)[:, back]


def similar_heads(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Group heads of similar size; each group is in ascending order."""
    order = sorted(range(len(sizes)), key=lambda head: -sizes[head])
    starts = [0]
    largest = sizes[order[0]]
    for index, head in enumerate(order):
        if largest - sizes[head] > max(_SIMILAR, largest // 4):
            starts.append(index)
            largest = sizes[head]
    return [tuple(sorted(order[a:b])) for a, b in pairwise([*starts, len(order)])]


def stacked(pieces: Sequence[Tensor], value: float = 0.0) -> Tensor:
    """Stack tensors along a new head axis, padding the shorter ones with `value`."""
    if len({len(piece) for piece in pieces}) == 1:
        return torch.stack(list(pieces))
    return pad_sequence(list(pieces), batch_first=True, padding_value=value)


def _index(heads: list[int]) -> slice | list[int]:
    """Return a slice if the heads are consecutive, which saves a copy."""
    first = heads[0]
    last = heads[-1]
    return slice(first, last + 1) if heads == list(range(first, last + 1)) else heads


def _indices(index: slice | list[int]) -> list[int]:
    return list(range(index.start, index.stop)) if isinstance(index, slice) else index
