"""What a feature map is: phi with phi(q).phi(k) in the place of exp(q.k/sqrt d) (P1 Eq. 6)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.kinds import describe
from attangent.attention.features.affine import Affine


class FeatureMap(nn.Module):
    """phi: R^d -> R^r, applied to the last axis; axis -3 is the head where a map has weights for each head.

    A map knows its size r, whether all its features are positive, and its gradient in closed form
    (`pullback`), which the fused attention uses. `encode` is what a key contributes to a prefix state; it is
    phi itself unless a map treats keys otherwise.
    """

    name: ClassVar[str]
    UNGUARDED: ClassVar[frozenset[str]] = frozenset(
        {"acting_keys", "acting_weight", "affine", "affine_gradients", "check_input", "encode", "evaluate"}
        | {"joined", "pullback", "rebuild", "row_sizes", "same_as", "scores"}
    )
    """What attention and its files ask of a map for every call: not for users, and not checked again."""
    positive: bool = True
    """Whether every feature is at least 0, so that phi(q) k > 0 for masses k > 0."""

    def __init__(self, dim: int, size: int):
        super().__init__()
        self.dim = check_size("dim", dim)
        self.size = check_size("size", size)

    def forward(self, x: Tensor) -> Tensor:
        """phi(x), (..., d) to (..., r), in the dtype of x."""
        raise NotImplementedError

    def check_input(self, x: Tensor) -> None:
        """Refuse what is not (..., d) floating point numbers."""
        if x.ndim == 0 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise AttangentError(
                f"x is {describe(x)}, expected (..., {self.dim}) floating point numbers: a row for each key"
            )

    def encode(self, keys: Tensor) -> Tensor:
        """What each key adds to the masses of a prefix state, (..., d) to (..., r)."""
        return self(keys)

    def trained(self) -> tuple[Tensor, ...]:
        """The map's own weights, in the order of `parameters()`."""
        return ()

    def row_sizes(self, Z: Tensor, k: Tensor) -> Tensor | None:
        """Sizes (heads, r) by which `evaluate` wants the rows of [Z|k] divided; None for no division."""
        return None

    def evaluate(self, x: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(w, shift) with phi(x) * sizes = w exp(shift); a shift of None stands for 0.

        Maps that grow exponentially keep w within [0, 1] this way; autograd may treat the shift as a
        constant.
        """
        return self.forward(x), None

    def pullback(self, x: Tensor, w: Tensor, grad_w: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Gradients of x and of `trained()` from that of w, as `evaluate` gave it; w may be overwritten."""
        raise NotImplementedError

    def affine(self) -> Affine | None:
        """The map in the form that compiled code knows; None for a map that has none."""
        return None

    def affine_gradients(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Gradients of `trained()`, from those of the form's weight and bias for each head.

        Weight is (heads, rows, d), bias (heads, rows); a form without a bias ignores its gradient.
        """
        return ()

    def describe(self) -> dict[str, Any]:
        """The constructor arguments that are plain numbers or words; tensors are in `state_dict`."""
        return {"dim": self.dim}

    @classmethod
    def rebuild(cls, described: dict[str, Any], tensors: dict[str, Any]) -> "FeatureMap":
        """The map that `describe` and `state_dict` speak of."""
        return cls(**described, **tensors)

    def joined(self, other: "FeatureMap") -> "FeatureMap | None":
        """A map whose features are those of both, side by side; None where the two maps are the same."""
        if self.same_as(other):
            return None
        raise AttangentError(
            f"states of the maps {self!r} and {other!r} cannot be added, expected equal maps: "
            "build both states with one feature map"
        )

    def same_as(self, other: "FeatureMap") -> bool:
        """Whether the other map has the same formula and the same weights."""
        if type(self) is not type(other) or self.describe() != other.describe():
            return False
        mine, theirs = self.state_dict(), other.state_dict()
        return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, size={self.size}"


def summed_over_heads(grad: Tensor, own: Tensor) -> Tensor:
    """The gradient of weights that several heads may share, from that of each head, in the weights' dtype."""
    if own.ndim < grad.ndim:
        grad = grad.sum(dim=0)
    elif len(own) == 1 < len(grad):
        grad = grad.sum(dim=0, keepdim=True)
    return grad.to(own.dtype)


def check_features(features: Any) -> FeatureMap:
    """`features` as a feature map."""
    if not isinstance(features, FeatureMap):
        raise AttangentError(
            f"features is {type(features).__name__}, expected a feature map such as Elu(dim)"
        )
    return features


def check_weights(name: str, value: Any, columns: int | None = None) -> Tensor:
    """`value` as a finite floating tensor (rows, columns) or (heads, rows, columns)."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise AttangentError(f"{name} is {type(value).__name__}, expected a floating point tensor")
    if value.ndim not in (2, 3) or 0 in value.shape or (columns is not None and value.shape[-1] != columns):
        wanted = f"(rows, {columns or 'd'}) or (heads, rows, {columns or 'd'})"
        raise AttangentError(f"{name} has shape {tuple(value.shape)}, expected {wanted}")
    if not torch.isfinite(value).all():
        raise AttangentError(f"{name} has NaN or infinite entries")
    return value
