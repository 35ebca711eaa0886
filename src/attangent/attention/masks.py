"""Masks of every kind in one form: a bias of the logits, a causal flag, and the rows that see no key."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention._inputs import describe
from attangent.attention.shapes import Keys, Queries


class Mask(NamedTuple):
    """A resolved mask.

    Attributes:
        bias: Added to the logits; broadcasts to (B, H, Lq, Lk).
        causal: Query i sees keys 0..i of as many keys. Only set without a bias.
        empty: Marks queries that see no key; broadcasts to (B, H, Lq).
    """

    bias: Float[Tensor, "#batch #heads #queries #keys"] | None = None
    causal: bool = False
    empty: Bool[Tensor, "#batch #heads #queries"] | None = None


def resolve_mask(mask: Tensor | None, causal: bool, q: Queries, k: Keys) -> Mask:
    """Return the mask of queries q (B, H, Lq, d) and keys k.

    Args:
        mask: Boolean (True: visible) or added to the logits; broadcasts to (B, H, Lq, Lk).
        causal: Query i sees keys up to i + Lk - Lq, as decoding with a cache requires. A key must pass both
            `mask` and `causal`.
        q: Queries.
        k: Keys.
    """
    rows = q.shape[-2]
    columns = k.shape[-2]
    if mask is None and not causal and columns:
        return Mask()
    if mask is not None:
        mask = checked_mask(mask, (*q.shape[:3], columns), q.device)
    if columns == 0:
        return Mask(empty=torch.ones(1, 1, rows, dtype=torch.bool, device=q.device))
    if mask is None and (not causal or rows == 1):
        return Mask()
    if mask is None and rows == columns:
        return Mask(causal=True)
    if causal and rows > 1:
        seen = torch.ones(1, 1, rows, columns, dtype=torch.bool, device=q.device).tril(columns - rows)
        mask = seen if mask is None else _restricted(mask, seen)
    assert mask is not None
    if mask.is_floating_point():
        bias = mask.to(q.dtype)
    else:
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, -torch.inf)
    return Mask(bias, empty=_none_if_all_see(bias.detach().amax(dim=-1) == -torch.inf))


def checked_mask(mask: Tensor, shape: tuple[int, ...], device: torch.device) -> Tensor:
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise AttangentError(
            f"mask is {describe(mask)}, expected a boolean tensor (True: visible) or one added to the logits"
        )
    if mask.device != device:
        raise AttangentError(f"mask is on {mask.device} and q on {device}, expected one device")
    fits = mask.ndim <= 4 and all(
        # a list: torch.compile of torch 2.9 does not trace a generator
        [mask.shape[-i] in (1, shape[-i]) for i in range(1, mask.ndim + 1)]  # noqa: C419
    )
    if not fits:
        raise AttangentError(f"mask has shape {tuple(mask.shape)}, expected one that broadcasts to {shape}")
    return mask[(None,) * (4 - mask.ndim)]


def _restricted(mask: Tensor, seen: Bool[Tensor, "1 1 queries keys"]) -> Tensor:
    return mask & seen if mask.dtype == torch.bool else mask.masked_fill(~seen, -torch.inf)


def _none_if_all_see(empty: Tensor) -> Tensor | None:
    """Return None if no row is empty, unless reading that would wait for a device or break a graph."""
    unknown = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if unknown or empty.device.type != "cpu" or torch._C._get_tracing_state() is not None:
        return empty
    return empty if bool(empty.any()) else None
