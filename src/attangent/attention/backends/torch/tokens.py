"""Fused token attention per device: forward gives (output, logsumexp), backward takes any logsumexp.

Backward computes P = exp(logits - lse) and delta = grad_out . out itself. Given the output and logsumexp of
tokens and prefix together, it therefore returns the exact gradients of the token side of both.
"""

from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

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


class CudaEfficient:
    """PyTorch's memory-efficient attention for CUDA; key heads are repeated and their gradients summed.

    Written against the operators' schemas and checked on their shape functions; not yet run on a GPU.
    """

    _dtypes = (torch.float32, torch.bfloat16, torch.float16)

    def supports(self, q: Queries, k: Keys, v: Values) -> bool:
        return q.dtype in self._dtypes and q.shape[-1] % 8 == 0 and v.shape[-1] % 8 == 0

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, scale: float) -> TokenPass:
        wide_k = _repeated(k, q)
        bias = _aligned_bias(mask.bias, q, k)
        out, lse, seed, offset = _aten._scaled_dot_product_efficient_attention(
            q, wide_k, _repeated(v, q), bias, True, 0.0, mask.causal, scale=scale
        )
        if mask.empty is not None:
            out = out.masked_fill(mask.empty.unsqueeze(-1), 0)
        return out, lse[..., : q.shape[-2]], (lse, seed, offset)

    def backward(
        self, grad: Outputs, q: Queries, tokens: KeyValues, out: Outputs, lse: RowNumbers, saved: Any
    ) -> Gradients:
        k, v, mask, scale = tokens
        padded, seed, offset = saved
        # the operator expects its own padding of the rows; inf gives padded rows no weight
        lse = F.pad(lse, (0, padded.shape[-1] - lse.shape[-1]), value=torch.inf)
        wide_k = _repeated(k, q)
        wide_v = _repeated(v, q)
        bias = _aligned_bias(mask.bias, q, k)
        wanted = [True, True, True, False]
        grad_q, grad_k, grad_v, _ = _aten._scaled_dot_product_efficient_attention_backward(
            grad, q, wide_k, wide_v, bias, out, lse, seed, offset, 0.0, wanted, mask.causal, scale=scale
        )
        return grad_q, _summed(grad_k, k), _summed(grad_v, v)


def _repeated(tensor: Tensor, q: Queries) -> Tensor:
    return tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1)


def _summed(grad: Tensor, tensor: Tensor) -> Tensor:
    return grad.unflatten(1, (tensor.shape[1], -1)).sum(dim=2)


def _aligned_bias(bias: Tensor | None, q: Queries, k: Keys) -> Tensor | None:
    """Expand the bias to (B, H, Lq, Lk) with rows that start at multiples of 16 entries."""
    if bias is None:
        return None
    length = k.shape[-2]
    bias = bias.expand(*bias.shape[:-1], length)
    padded = F.pad(bias, (0, -length % 16))
    return padded[..., :length].expand(*q.shape[:3], length)


# The fused attention of each type of device.
FUSED: dict[str, FusedTokens] = {"cpu": CpuFlash(), "cuda": CudaEfficient()}


def fused_for(q: Queries, k: Keys, v: Values, mask: Mask) -> FusedTokens | None:
    """Return the fused attention that supports these tokens; None if only the portable path does."""
    fused = None if torch._C._are_functorch_transforms_active() else FUSED.get(q.device.type)
    if fused is None or q.numel() == 0 or k.numel() == 0 or not fused.supports(q, k, v):
        return None
    return None if mask.bias is not None and mask.bias.requires_grad else fused
