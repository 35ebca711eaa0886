"""PyTorch's fused token attention for CPUs: output with logsumexp, and gradients for any logsumexp.

The gradients come from P = exp(logits - lse) and delta = grad_out . out. Given the output and logsumexp of
tokens and prefix together, they are therefore the exact gradients of the token side of both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attangent.attention.masks import Mask
from attangent.attention.shapes import Keys, Outputs, Queries, RowNumbers, Values

# a third faster to call than the one in torch.ops.aten
_flash = torch._scaled_dot_product_flash_attention_for_cpu  # pyright: ignore[reportPrivateImportUsage]
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class KeyValues(NamedTuple):
    """Keys and values with their mask and the factor of the logits."""

    k: Keys
    v: Values
    mask: Mask
    scale: float


class GradientRows(NamedTuple):
    """The rows of a backward pass.

    Attributes:
        q: Queries.
        out: Merged output of the forward pass.
        total: log |total mass| of the forward pass.
        sign: Its sign; None if it is positive.
        grad: Gradient of `out`.
        grad_q: The token side's gradient of q, to which that of the prefix is added; None if not wanted.
    """

    q: Queries
    out: Outputs
    total: RowNumbers
    sign: RowNumbers | None
    grad: Outputs
    grad_q: Queries | None


def supports_flash(q: Queries, k: Keys, v: Values) -> bool:
    """Return whether the fused attention knows these dtypes and sizes; there may be fewer key heads."""
    return q.device.type == "cpu" and q.dtype in _DTYPES and k.shape[-1] == v.shape[-1]


def is_fused(q: Queries, k: Keys, v: Values, mask: Mask) -> bool:
    """Return whether the fused attention computes this call; otherwise only the portable path does."""
    if torch._C._are_functorch_transforms_active() or q.numel() == 0 or k.numel() == 0:
        return False
    return supports_flash(q, k, v) and (mask.bias is None or not mask.bias.requires_grad)


def flash(q: Queries, k: Keys, v: Values, mask: Mask, scale: float) -> tuple[Outputs, RowNumbers]:
    """Return attention over the tokens and the logsumexp of its logits; 0 for rows that see no token."""
    return _flash(q, k, v, 0.0, mask.causal, attn_mask=mask.bias, scale=scale)


def flash_gradients(
    grad: Outputs, q: Queries, tokens: KeyValues, out: Outputs, lse: RowNumbers
) -> tuple[Queries, Keys, Values]:
    """Return the gradients of q, k and v."""
    k, v, mask, scale = tokens
    return _flash_backward(grad, q, k, v, out, lse, 0.0, mask.causal, attn_mask=mask.bias, scale=scale)


def only_wanted(grads: Sequence[Tensor | None], wanted: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Return the wanted gradients, and None for the others."""
    return tuple(grad if want else None for grad, want in zip(grads, wanted, strict=True))
