"""Virtual tokens of which every head has its own number: kept, counted and attended to without padding."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attangent._core.errors import AttangentError
from attangent.attention._inputs import check_softcap, describe
from attangent.attention.features import Anchors
from attangent.attention.prefix import Weights, reflected
from attangent.attention.state import PrefixState

_ALIKE = 16
"""Heads whose sizes differ by at most this many tokens, or a quarter, are attended to together."""


class PlacedAnchors(Anchors):
    """Anchors at given keys (heads, r, d), through which gradients flow to whatever the keys came from."""

    def __init__(self, keys: Tensor, softcap: float | None = None):
        nn.Module.__init__(self)
        self.dim, self.size, self.softcap = keys.shape[-1], keys.shape[-2], softcap
        self.keys, self.damping = keys, None  # type: ignore[assignment]


class Part(NamedTuple):
    """Some heads of a ragged prefix, and the prefix of these alone."""

    heads: tuple[int, ...]
    prefix: Weights


class Ragged:
    """r_h virtual tokens for head h: keys (R, d), Z (R, dv) and masses (R), head after head, R = sum r_h.

    Head h adds sum_j e^(q.c_j/sqrt d) Z_j above and sum_j e^(q.c_j/sqrt d) |mass_j| below, Z_j being the
    mass times the value of token j. As a `Prefix` (`features` and `weights`) it is filled up with tokens of
    no mass; attention takes the `parts` instead, which are hardly filled up.
    """

    sizes: tuple[int, ...]
    softcap: float | None

    def tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (R, d), Z (R, dv) and mass (R) of all heads, one head after the other."""
        raise NotImplementedError

    @property
    def heads(self) -> int:
        return len(self.sizes)

    @property
    def features(self) -> PlacedAnchors:
        return PlacedAnchors(self._padded(self.tokens()[0]), self.softcap)

    def weights(self) -> tuple[Tensor, Tensor]:
        _, Z, mass = self.tokens()
        return self._padded(Z), self._padded(mass)

    def by_head(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Keys (r_h, d), values (r_h, dv) and masses (r_h) of each head."""
        keys, Z, mass = self.tokens()
        masses = reflected(mass)
        values = Z / torch.where(masses == 0, 1, masses).unsqueeze(-1)
        return list(zip(*(each.split(self.sizes) for each in (keys, values, masses)), strict=True))

    def parts(self) -> list[Part]:
        """The heads in groups of like size, each group as a prefix of its own."""
        pieces = [tensor.split(self.sizes) for tensor in self.tokens()]
        found = []
        for heads in alike(self.sizes):
            keys, Z, mass = (stacked([tensor[head] for head in heads]) for tensor in pieces)
            found.append(Part(heads, Weights(PlacedAnchors(keys, self.softcap), Z, mass)))
        return found

    def _padded(self, tokens: Tensor) -> Tensor:
        return stacked(list(tokens.split(self.sizes)))


class RaggedTokens(Ragged):
    """A ragged prefix of given tensors, through which gradients flow."""

    def __init__(
        self, keys: Tensor, Z: Tensor, mass: Tensor, sizes: Sequence[int], softcap: float | None = None
    ):
        self.sizes, self.softcap = tuple(sizes), check_softcap(softcap)
        self._tokens = keys, Z, mass

    @classmethod
    def of(
        cls,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        masses: Sequence[Tensor],
        softcap: float | None = None,
    ) -> "RaggedTokens":
        """From keys (r_h, d), values (r_h, dv) and masses (r_h), one of each for every head."""
        _check_heads(keys, values, masses)
        mass = torch.cat(list(masses))
        return cls(
            torch.cat(list(keys)),
            torch.cat(list(values)) * mass.unsqueeze(-1),
            mass,
            [len(each) for each in keys],
            softcap,
        )

    def tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._tokens


class RaggedState(Ragged, nn.Module):
    """A ragged prefix whose keys, Z and masses are trained; see `Ragged` for the formula.

    >>> keys = [torch.randn(size, 4) for size in (3, 7)]
    >>> state = RaggedState.of(keys, keys, [torch.ones(3), torch.ones(7)])
    >>> state.sizes, state.number_of_floats
    ((3, 7), 90)
    """

    def __init__(
        self, keys: Tensor, Z: Tensor, mass: Tensor, sizes: Sequence[int], softcap: float | None = None
    ):
        nn.Module.__init__(self)
        self.sizes, self.softcap = _check_sizes(sizes), check_softcap(softcap)
        _check_tokens(keys, Z, mass, self.sizes)
        self.keys, self.Z, self.mass = (nn.Parameter(t.detach().clone()) for t in (keys, Z, mass))

    @classmethod
    def of(
        cls,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        masses: Sequence[Tensor],
        softcap: float | None = None,
    ) -> "RaggedState":
        """From keys (r_h, d), values (r_h, dv) and masses (r_h), one of each for every head."""
        tokens = RaggedTokens.of(keys, values, masses, softcap)
        return cls(*tokens.tokens(), tokens.sizes, softcap)

    @classmethod
    def from_state(cls, state: PrefixState) -> "RaggedState":
        """A state of anchors as virtual tokens, those without mass and values left out (one is kept)."""
        if not isinstance(state.features, Anchors):
            raise AttangentError(f"a state of {state.features!r} has no virtual tokens, expected anchors")
        keys = state.features.acting_keys(state.Z.dtype).detach().expand(state.heads, -1, -1)
        Z, mass = state.Z.detach(), state.k.detach()
        kept = (mass != 0) | (Z != 0).any(dim=-1)
        kept[:, 0] |= ~kept.any(dim=1)
        sizes = kept.sum(dim=1).tolist()
        return cls(keys[kept], Z[kept], mass[kept], sizes, state.features.softcap)

    def tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.keys, self.Z, self.mass

    @property
    def k(self) -> Tensor:
        """The masses (R), never negative."""
        return reflected(self.mass)

    @property
    def number_of_floats(self) -> int:
        """How many numbers the state holds."""
        return sum(parameter.numel() for parameter in self.parameters())

    def add(self, other: "RaggedState | PrefixState") -> "RaggedState":
        """The state of both prefixes together: every head has the tokens of both."""
        other = other if isinstance(other, RaggedState) else RaggedState.from_state(other)
        if self.heads != other.heads or self.softcap != other.softcap:
            raise AttangentError(
                f"states of {self.heads} and {other.heads} heads with softcaps {self.softcap} and "
                f"{other.softcap} cannot be added, expected equal ones"
            )
        keys, Z, mass = (
            torch.cat([part for pair in zip(*each, strict=True) for part in pair])
            for each in zip(self._pieces(), other._pieces(), strict=True)
        )
        sizes = [one + two for one, two in zip(self.sizes, other.sizes, strict=True)]
        return RaggedState(keys, Z, mass, sizes, self.softcap)

    def _pieces(self) -> list[tuple[Tensor, ...]]:
        return [tensor.detach().split(self.sizes) for tensor in self.tokens()]

    def extra_repr(self) -> str:
        return f"sizes={self.sizes}, keys={tuple(self.keys.shape)}, Z={tuple(self.Z.shape)}"


def alike(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The heads in groups of like size; within a group in order."""
    order = sorted(range(len(sizes)), key=lambda head: -sizes[head])
    starts, largest = [0], sizes[order[0]]
    for place, head in enumerate(order):
        if largest - sizes[head] > max(_ALIKE, largest // 4):
            starts.append(place)
            largest = sizes[head]
    return [tuple(sorted(order[a:b])) for a, b in pairwise([*starts, len(order)])]


def stacked(pieces: Sequence[Tensor], value: float = 0.0) -> Tensor:
    """One tensor for all heads, the shorter ones filled up with `value`."""
    if len({len(piece) for piece in pieces}) == 1:
        return torch.stack(list(pieces))
    return pad_sequence(list(pieces), batch_first=True, padding_value=value)


def _check_sizes(sizes: Any) -> tuple[int, ...]:
    whole = isinstance(sizes, list | tuple) and all(type(size) is int and size > 0 for size in sizes)
    if not whole or not sizes:
        raise AttangentError(f"sizes are {sizes!r}, expected how many tokens each head has, at least 1")
    return tuple(sizes)


def _check_heads(keys: Any, values: Any, masses: Any) -> None:
    lists = keys, values, masses
    if not all(isinstance(each, list | tuple | nn.ParameterList) and len(each) for each in lists):
        raise AttangentError("keys, values and masses are expected as lists with a tensor for each head")
    if len({len(each) for each in lists}) > 1:
        raise AttangentError(
            f"there are keys for {len(keys)} heads, values for {len(values)} and masses for {len(masses)}, "
            "expected as many"
        )
    for head, (c, u, mass) in enumerate(zip(*lists, strict=True)):
        tensors = all(isinstance(t, Tensor) and t.is_floating_point() for t in (c, u, mass))
        if not tensors or (c.ndim, u.ndim, mass.ndim) != (2, 2, 1) or not len(c) == len(u) == len(mass) > 0:
            raise AttangentError(
                f"head {head} has keys {describe(c)}, values {describe(u)} and masses {describe(mass)}, "
                "expected floating point tensors (r, d), (r, dv) and (r) with r at least 1"
            )
        if (c.shape[1], u.shape[1]) != (keys[0].shape[1], values[0].shape[1]):
            raise AttangentError(
                f"head {head} has keys of size {c.shape[1]} and values of size {u.shape[1]}, expected "
                f"{keys[0].shape[1]} and {values[0].shape[1]} as head 0 has"
            )


def _check_tokens(keys: Any, Z: Any, mass: Any, sizes: tuple[int, ...]) -> None:
    tensors, count = (keys, Z, mass), sum(sizes)
    if not all(isinstance(t, Tensor) and t.is_floating_point() for t in tensors) or (
        (keys.ndim, Z.ndim, tuple(mass.shape)) != (2, 2, (count,)) or not len(keys) == len(Z) == count
    ):
        raise AttangentError(
            f"keys, Z and mass are {', '.join(map(describe, tensors))}, expected floating point tensors "
            f"({count}, d), ({count}, dv) and ({count},) for heads of {list(sizes)} tokens"
        )
    if 0 in (keys.shape[1], Z.shape[1]) or not all(torch.isfinite(t).all() for t in tensors):
        raise AttangentError("keys, Z or mass of the state are empty or have NaN or infinite entries")
