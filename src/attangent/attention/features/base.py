"""The interface of a feature map: phi(q).phi(k) replaces exp(q.k/sqrt d) (P1 Eq. 6)."""

from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.attention._inputs import describe
from attangent.attention.shapes import (
    Evaluated,
    Features,
    HeadBiases,
    HeadWeights,
    Inputs,
    Pulled,
    StateMass,
    StateZ,
)

AffineKind = Literal["elu", "learned-elu", "learned-gelu", "exponential"]


class Affine(NamedTuple):
    """A map in the form that compiled code and decoding read: one function of affine functions of the query.

    phi(x) = e^level [1, act(W x + b)] for the learned kinds and e^level exp(W x + b) for exponentials. The
    kind `elu` has no weights: phi(x) = elu(x d^(-1/4)) + 1.

    Attributes:
        kind: Which function.
        weight: W (heads or 1, rows, d).
        bias: b (heads or 1, rows); None stands for 0.
        level: level (heads,); None stands for 0.
    """

    kind: AffineKind
    weight: HeadWeights | None = None
    bias: HeadBiases | None = None
    level: Float[Tensor, " heads"] | None = None


class FeatureMap(nn.Module):
    """phi: R^d -> R^r on the last axis; axis -3 is the head if a map has separate weights per head.

    A map knows its size r, whether all its features are positive, and its gradient in closed form
    (`pullback`), which the fused attention uses. To add a map, subclass this and register it in
    `attention.features.BY_NAME`.

    Args:
        dim: Size d of keys and queries.
        size: Number r of features.

    Raises:
        AttangentError: If a size is below 1.

    Example:
        >>> from attangent.attention.features import Elu
        >>> Elu(4).size
        4
    """

    name: ClassVar[str]
    positive: bool = True
    """Whether every feature is at least 0, so that phi(q) k > 0 for masses k > 0."""

    def __init__(self, dim: int, size: int):
        super().__init__()
        self.dim = check_size("dim", dim)
        self.size = check_size("size", size)

    def forward(self, x: Tensor) -> Tensor:
        """Compute phi(x) in the dtype of x.

        Args:
            x: Queries or keys (..., d).

        Returns:
            Features (..., r).

        Raises:
            AttangentError: If x has another size or is not floating point.
        """
        raise NotImplementedError

    def check_input(self, x: Tensor) -> None:
        """Check that x is (..., d) and floating point.

        Args:
            x: Queries or keys.

        Raises:
            AttangentError: If it is not.
        """
        if x.ndim == 0 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise AttangentError(
                f"x is {describe(x)}, expected (..., {self.dim}) floating point numbers, one row per key"
            )

    def encode(self, keys: Inputs) -> Features:
        """Return the contribution of each key to the masses of a state: phi(keys) unless overridden.

        Args:
            keys: Keys (..., d).

        Returns:
            Contributions (..., r).
        """
        return self(keys)

    def trained(self) -> tuple[Tensor, ...]:
        """Return the map's trained weights, in the order of `parameters()`."""
        return ()

    def row_sizes(self, Z: StateZ, k: StateMass) -> StateMass | None:
        """Return sizes (heads, r) by which `evaluate` wants the rows of [Z|k] divided.

        Args:
            Z: Z (heads, r, dv).
            k: Masses (heads, r).

        Returns:
            The sizes, or None for no division.
        """
        return None

    def evaluate(self, x: Inputs, sizes: StateMass | None) -> Evaluated:
        """Compute (w, shift) with phi(x) * sizes = w exp(shift).

        Maps that grow exponentially use the shift to keep w within [0, 1]; autograd may treat the shift as
        a constant.

        Args:
            x: Queries (..., d).
            sizes: Sizes from `row_sizes`; None stands for 1.

        Returns:
            w (..., r) and shift (..., 1); a shift of None stands for 0.
        """
        return self.forward(x), None

    def pullback(self, x: Inputs, w: Features, grad_w: Features) -> Pulled:
        """Compute the gradients of x and of `trained()` from the gradient of w.

        Args:
            x: Queries (..., d).
            w: Features from `evaluate`; may be overwritten.
            grad_w: Gradient of w.

        Returns:
            The gradient of x, and those of `trained()`.
        """
        raise NotImplementedError

    def affine(self, dtype: torch.dtype = torch.float32) -> Affine | None:
        """Return the map as a function of affine functions; None if it has no such form.

        Args:
            dtype: Dtype of the weights.

        Returns:
            The form.
        """
        return None

    def affine_gradients(self, weight: HeadWeights, bias: Tensor) -> tuple[Tensor, ...]:
        """Convert gradients of the affine form to gradients of `trained()`.

        Args:
            weight: Gradient of W (heads, rows, d).
            bias: Gradient of b (heads, rows); any tensor for a form without a bias, which ignores it.

        Returns:
            The gradients of `trained()`.
        """
        return ()

    def describe(self) -> dict[str, Any]:
        """Return the constructor arguments that are numbers or words; tensors are in `state_dict`."""
        return {"dim": self.dim}

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Any]) -> "FeatureMap":
        """Build the map from `describe` and `state_dict`.

        Args:
            described: The result of `describe`.
            tensors: The result of `state_dict`.

        Returns:
            The map.
        """
        return cls(**described, **tensors)

    def joined(self, other: "FeatureMap") -> "FeatureMap | None":
        """Return a map with the features of both, concatenated; None if the two maps are equal.

        Args:
            other: Another map.

        Returns:
            The concatenated map, or None.

        Raises:
            AttangentError: If the maps differ and cannot be concatenated.
        """
        if self.same_as(other):
            return None
        raise AttangentError(
            f"states of the maps {self!r} and {other!r} cannot be added, expected equal maps: "
            "build both states with one feature map"
        )

    def same_as(self, other: "FeatureMap") -> bool:
        """Return whether the other map has the same formula and the same weights.

        Args:
            other: Another map.

        Returns:
            True if both are equal.
        """
        if type(self) is not type(other) or self.describe() != other.describe():
            return False
        mine = self.state_dict()
        theirs = other.state_dict()
        return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)

    def extra_repr(self) -> str:
        """Return the sizes for `repr`."""
        return f"dim={self.dim}, size={self.size}"


def sum_heads(grad: Tensor, weights: Tensor) -> Tensor:
    """Sum a gradient per head to the shape and dtype of weights that several heads may share."""
    return grad.sum_to_size(weights.shape).to(weights.dtype)


def check_features(features: FeatureMap) -> FeatureMap:
    """Check that `features` is a feature map."""
    if not isinstance(features, FeatureMap):
        raise AttangentError(
            f"features is {type(features).__name__}, expected a feature map such as Elu(dim)"
        )
    return features


def check_weights(name: str, value: Tensor, columns: int | None = None) -> Tensor:
    """Check that `value` is finite and floating point, (rows, columns) or (heads, rows, columns)."""
    if not value.is_floating_point():
        raise AttangentError(f"{name} is {describe(value)}, expected a floating point tensor")
    if value.ndim not in (2, 3) or 0 in value.shape or (columns is not None and value.shape[-1] != columns):
        wanted = f"(rows, {columns or 'd'}) or (heads, rows, {columns or 'd'})"
        raise AttangentError(f"{name} has shape {tuple(value.shape)}, expected {wanted}")
    if not torch.isfinite(value).all():
        raise AttangentError(f"{name} has NaN or infinite entries")
    return value


def checked_damping(damping: Tensor | None, rows: Tensor) -> Tensor | None:
    """Return a copy of R, (c, d) or (heads, c, d), for a map of x @ rows'."""
    if damping is None:
        return None
    damping = check_weights("damping", damping, columns=rows.shape[-1])
    if damping.shape[:-2] != rows.shape[:-2] or damping.shape[-2] > damping.shape[-1]:
        raise AttangentError(
            f"damping has shape {tuple(damping.shape)}, expected at most {rows.shape[-1]} rows of as many "
            f"columns, for the heads of the map's weights, which have shape {tuple(rows.shape)}"
        )
    return damping.detach().clone()


def damped(rows: Tensor, damping: Tensor | None) -> Tensor:
    """Return rows (I - R'R), the matrix that acts on x itself."""
    if damping is None:
        return rows
    R = damping.to(rows.dtype)
    # never forms the d x d matrix I - R'R: R has few rows
    return rows - (rows @ R.mT) @ R
