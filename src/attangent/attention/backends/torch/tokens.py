"""Fused token attention per device: forward gives (output, logsumexp), backward takes any logsumexp.

Backward computes P = exp(logits - lse) and delta = grad_out . out itself. Given the output and logsumexp of
tokens and prefix together, it therefore returns the exact gradients of the token side of both.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch

from attangent.attention.masks import Mask
from attangent.attention.shapes import Keys, Outputs, Queries, RowNumbers, Values

_aten = torch.ops.aten
# a third faster to call than the one in _aten
_cpu_flash = torch._scaled_dot_product_flash_attention_for_cpu  # pyright: ignore[reportPrivateImportUsage]
_cpu_flash_backward = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default
Gradients = tuple[Queries, Keys, Values]
TokenPass = tuple[Outputs, RowNumbers, Any]


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


@runtime_checkable
class FusedTokens(Protocol):
    """The fused attention of a device; `saved` is passed from a forward pass to its backward pass."""

    def supports(self, q: Queries, k: Keys, v: Values) -> bool: ...

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, scale: float) -> TokenPass: ...

    def backward(
        self, grad: Outputs, q: Queries, tokens: KeyValues, out: Outputs, lse: RowNumbers, saved: Any
    ) -> Gradients: ...


class CpuFlash:
    """PyTorch's flash attention for CPUs; it accepts fewer key heads than query heads."""

    _dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

    def supports(self, q: Queries, k: Keys, v: Values) -> bool:
        return q.dtype in self._dtypes and k.shape[-1] == v.shape[-1]

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, scale: float) -> TokenPass:
        out, lse = _cpu_flash(q, k, v, 0.0, mask.causal, attn_mask=mask.bias, scale=scale)
        return out, lse, None

    def backward(
        self, grad: Outputs, q: Queries, tokens: KeyValues, out: Outputs, lse: RowNumbers, saved: Any
    ) -> Gradients:
        k, v, mask, scale = tokens
        return _cpu_flash_backward(
            grad, q, k, v, out, lse, 0.0, mask.causal, attn_mask=mask.bias, scale=scale
        )


FUSED: dict[str, FusedTokens] = {"cpu": CpuFlash()}


def fused_for(q: Queries, k: Keys, v: Values, mask: Mask) -> FusedTokens | None:
    """Return the fused attention that supports these tokens; None if only the portable path does."""
    fused = None if torch._C._are_functorch_transforms_active() else FUSED.get(q.device.type)
    if fused is None or q.numel() == 0 or k.numel() == 0 or not fused.supports(q, k, v):
        return None
    return None if mask.bias is not None and mask.bias.requires_grad else fused
