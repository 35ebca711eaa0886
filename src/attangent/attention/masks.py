"""Masks of every kind as one: what is added to the logits, whether it is causal, which rows are empty."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention._inputs import describe


class Mask(NamedTuple):
    """A resolved mask.

    `bias` is added to the logits and broadcasts to (B, H, Lq, Lk); `causal` says that query i sees keys 0..i
    of as many keys (it is only set without a bias); `empty` (broadcasting to B, H, Lq) marks queries that see
    no key.
    """

    bias: Tensor | None = None
    causal: bool = False
    empty: Tensor | None = None


def resolve_mask(mask: Any, causal: bool, q: Tensor, k: Tensor) -> Mask:
    """The mask of queries q (B, H, Lq, d) and keys k.

    `mask` is boolean (True: may be seen) or added to the logits, of any shape that broadcasts to (B, H, Lq,
    Lk). `causal` aligns the last query with the last key, as decoding with a cache needs it: query i sees
    keys up to i + Lk - Lq. Both may be given; a key must then pass both.
    """
    rows, columns = q.shape[-2], k.shape[-2]
    if mask is None and not causal and columns:
        return Mask()
    if mask is not None:
        mask = _checked(mask, (*q.shape[:3], columns), q.device)
    if columns == 0:
        return Mask(empty=torch.ones(1, 1, rows, dtype=torch.bool, device=q.device))
    if mask is None and (not causal or rows == 1):
        return Mask()
    if mask is None and rows == columns:
        return Mask(causal=True)
    seen = _bottom_right(rows, columns, q.device) if causal and rows > 1 else None
    return (
        _from_bias(mask, seen, q)
        if mask is not None and mask.is_floating_point()
        else _from_seen(mask, seen, q)
    )


def _checked(mask: Any, shape: tuple[int, ...], device: torch.device) -> Tensor:
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise AttangentError(
            f"mask is {describe(mask)}, "
            "expected a boolean tensor (True: may be seen) or one added to the logits"
        )
    if mask.device != device:
        raise AttangentError(f"mask is on {mask.device} and q on {device}, expected one device")
    fits = mask.ndim <= 4 and all(
        have in (1, want) for have, want in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise AttangentError(f"mask has shape {tuple(mask.shape)}, expected one that broadcasts to {shape}")
    return mask[(None,) * (4 - mask.ndim)]


def _bottom_right(rows: int, columns: int, device: torch.device) -> Tensor:
    ones = torch.ones(rows, columns, dtype=torch.bool, device=device)
    return ones.tril(columns - rows)[None, None]


def _from_seen(mask: Tensor | None, seen: Tensor | None, q: Tensor) -> Mask:
    allowed = mask if seen is None else seen if mask is None else mask & seen
    assert allowed is not None
    bias = torch.zeros(allowed.shape, dtype=q.dtype, device=q.device).masked_fill(~allowed, -torch.inf)
    return Mask(bias, empty=_any_of(~allowed.any(dim=-1)))


def _from_bias(mask: Tensor, seen: Tensor | None, q: Tensor) -> Mask:
    bias = mask.to(q.dtype)
    bias = bias if seen is None else bias.masked_fill(~seen, -torch.inf)
    return Mask(bias, empty=_any_of(bias.detach().amax(dim=-1) == -torch.inf))


def _any_of(empty: Tensor) -> Tensor | None:
    """None where no row is, as far as that can be looked up without waiting for a device or a graph."""
    unknown = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if unknown or empty.device.type != "cpu" or torch._C._get_tracing_state() is not None:
        return empty
    return empty if bool(empty.any()) else None
