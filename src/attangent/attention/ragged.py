"""A trained prefix with a different number of virtual tokens per head, stored without padding."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent.attention._inputs import check_softcap, describe
from attangent.attention.features import Anchors
from attangent.attention.prefix import RaggedTokens, reflected
from attangent.attention.shapes import TokenKeys, TokenMass, TokenZ
from attangent.attention.state import PrefixState


class RaggedState(RaggedTokens, nn.Module):
    """A ragged prefix whose keys, Z and masses are trained.

    Head h adds sum_j e^(q.c_j/sqrt d) Z_j to the numerator and sum_j e^(q.c_j/sqrt d) |mass_j| to the
    denominator of attention.

    Args:
        keys: Keys c (R, d) of all heads, head after head.
        Z: Masses times values (R, dv).
        mass: Masses (R).
        sizes: Number of tokens per head, at least 1; they sum to R.
        softcap: Cap of the logits, cap tanh(logit/cap); None for no cap.

    Raises:
        AttangentError: If the tensors do not fit `sizes` or are not finite.

    Example:
        >>> keys = [torch.randn(size, 4) for size in (3, 7)]
        >>> state = RaggedState.of(keys, keys, [torch.ones(3), torch.ones(7)])
        >>> state.sizes, state.number_of_floats
        ((3, 7), 90)
    """

    def __init__(
        self, keys: Tensor, Z: Tensor, mass: Tensor, sizes: Sequence[int], softcap: float | None = None
    ):
        nn.Module.__init__(self)
        if not sizes or not all(type(size) is int and size > 0 for size in sizes):
            raise AttangentError(f"sizes are {sizes!r}, expected the number of tokens per head, at least 1")
        self.sizes = tuple(sizes)
        self.softcap = check_softcap(softcap)
        _check_tokens(keys, Z, mass, self.sizes)
        self.keys = nn.Parameter(keys.detach().clone())
        self.Z = nn.Parameter(Z.detach().clone())
        self.mass = nn.Parameter(mass.detach().clone())

    @classmethod
    def from_state(cls, state: PrefixState) -> "RaggedState":
        """Convert a state of anchors to virtual tokens, dropping tokens without mass and value.

        Args:
            state: A state whose feature map is `Anchors`.

        Returns:
            The same prefix; every head keeps at least one token.

        Raises:
            AttangentError: If the state has another feature map.
        """
        if not isinstance(state.features, Anchors):
            raise AttangentError(f"a state of {state.features!r} has no virtual tokens, expected anchors")
        keys = state.features.acting_keys(state.Z.dtype).detach().expand(state.heads, -1, -1)
        Z = state.Z.detach()
        mass = state.k.detach()
        retained = (mass != 0) | (Z != 0).any(dim=-1)
        retained[:, 0] |= ~retained.any(dim=1)
        sizes = retained.sum(dim=1).tolist()
        return cls(keys[retained], Z[retained], mass[retained], sizes, state.features.softcap)

    def tokens(self) -> tuple[TokenKeys, TokenZ, TokenMass]:
        """Return keys (R, d), Z (R, dv) and mass (R) of all heads, head after head."""
        return self.keys, self.Z, self.mass

    @property
    def k(self) -> TokenMass:
        """Masses (R), never negative."""
        return reflected(self.mass)

    @property
    def number_of_floats(self) -> int:
        """Number of trained floats in the state."""
        return sum(parameter.numel() for parameter in self.parameters())

    def add(self, other: "RaggedState | PrefixState") -> "RaggedState":
        """Concatenate two prefixes: every head gets the tokens of both.

        Args:
            other: A state with as many heads and the same softcap.

        Returns:
            The combined state.

        Raises:
            AttangentError: If heads or softcaps differ.
        """
        other = other if isinstance(other, RaggedState) else RaggedState.from_state(other)
        if self.heads != other.heads or self.softcap != other.softcap:
            raise AttangentError(
                f"states of {self.heads} and {other.heads} heads with softcaps {self.softcap} and "
                f"{other.softcap} cannot be added, expected equal ones"
            )
        keys, Z, mass = (
            torch.cat([piece for pair in zip(*tensors, strict=True) for piece in pair])
            for tensors in zip(self._pieces(), other._pieces(), strict=True)
        )
        sizes = [a + b for a, b in zip(self.sizes, other.sizes, strict=True)]
        return RaggedState(keys, Z, mass, sizes, self.softcap)

    def _pieces(self) -> list[tuple[Tensor, ...]]:
        return [tensor.detach().split(self.sizes) for tensor in self.tokens()]

    def extra_repr(self) -> str:
        """Return the sizes for `repr`."""
        return f"sizes={self.sizes}, keys={tuple(self.keys.shape)}, Z={tuple(self.Z.shape)}"


def _check_tokens(keys: Tensor, Z: Tensor, mass: Tensor, sizes: tuple[int, ...]) -> None:
    tensors = keys, Z, mass
    count = sum(sizes)
    shaped = (keys.ndim, Z.ndim, tuple(mass.shape)) == (2, 2, (count,)) and len(keys) == len(Z) == count
    if not shaped or not all(t.is_floating_point() for t in tensors):
        raise AttangentError(
            f"keys, Z and mass are {', '.join(map(describe, tensors))}, expected floating point tensors "
            f"({count}, d), ({count}, dv) and ({count},) for heads of {list(sizes)} tokens"
        )
    if 0 in (keys.shape[1], Z.shape[1]) or not all(torch.isfinite(t).all() for t in tensors):
        raise AttangentError("keys, Z or mass of the state are empty or have NaN or infinite entries")
