"""Fused token attention of each device: forward gives (output, logsumexp), backward takes any logsumexp.

Backward computes P = exp(logits - lse) and delta = grad_out . out itself. Handed the output and logsumexp of
tokens and prefix together, it therefore returns the exact gradients of the token side of both.
"""

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.attention.masks import Mask

_aten = torch.ops.aten
# a third faster to call than the one in _aten
_cpu_flash = torch._scaled_dot_product_flash_attention_for_cpu  # pyright: ignore[reportPrivateImportUsage]
_cpu_flash_backward = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class FusedTokens(Protocol):
    """`saved` is whatever a forward pass wants its backward pass to have."""

    def supports(self, q: Tensor, k: Tensor, v: Tensor) -> bool: ...

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float
    ) -> tuple[Tensor, Tensor, Any]: ...

    def backward(
        self,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        mask: Mask,
        scale: float,
        saved: Any,
    ) -> tuple[Tensor, Tensor, Tensor]: ...


class CpuFlash:
    """PyTorch's flash attention for CPUs; few key heads are taken as they are."""

    _dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

    def supports(self, q: Tensor, k: Tensor, v: Tensor) -> bool:
        return q.dtype in self._dtypes and k.shape[-1] == v.shape[-1]

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float
    ) -> tuple[Tensor, Tensor, Any]:
        out, lse = _cpu_flash(q, k, v, 0.0, mask.causal, attn_mask=mask.bias, scale=scale)
        return out, lse, None

    def backward(
        self,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        mask: Mask,
        scale: float,
        saved: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return _cpu_flash_backward(
            grad, q, k, v, out, lse, 0.0, mask.causal, attn_mask=mask.bias, scale=scale
        )


class CudaEfficient:
    """PyTorch's memory-efficient attention for CUDA; few key heads are repeated, their gradients summed.

    Written against the operators' schemas and checked on their shape functions; it has not been run on a GPU.
    """

    _dtypes = (torch.float32, torch.bfloat16, torch.float16)

    def supports(self, q: Tensor, k: Tensor, v: Tensor) -> bool:
        return q.dtype in self._dtypes and q.shape[-1] % 8 == 0 and v.shape[-1] % 8 == 0

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float
    ) -> tuple[Tensor, Tensor, Any]:
        k, v = _repeated(k, q), _repeated(v, q)
        bias = _aligned_bias(mask.bias, q, k)
        out, lse, seed, offset = _aten._scaled_dot_product_efficient_attention(
            q, k, v, bias, True, 0.0, mask.causal, scale=scale
        )
        if mask.empty is not None:
            out = out.masked_fill(mask.empty.unsqueeze(-1), 0)
        return out, lse[..., : q.shape[-2]], (lse, seed, offset)

    def backward(
        self,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        mask: Mask,
        scale: float,
        saved: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        padded, seed, offset = saved
        lse = F.pad(lse, (0, padded.shape[-1] - lse.shape[-1]), value=torch.inf)
        wide_k, wide_v = _repeated(k, q), _repeated(v, q)
        bias = _aligned_bias(mask.bias, q, k)
        wanted = [True, True, True, False]
        grad_q, grad_k, grad_v, _ = _aten._scaled_dot_product_efficient_attention_backward(
            grad, q, wide_k, wide_v, bias, out, lse, seed, offset, 0.0, wanted, mask.causal, scale=scale
        )
        return grad_q, _summed(grad_k, k), _summed(grad_v, v)


def _repeated(tensor: Tensor, q: Tensor) -> Tensor:
    return tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1)


def _summed(grad: Tensor, tensor: Tensor) -> Tensor:
    return grad.unflatten(1, (tensor.shape[1], -1)).sum(dim=2)


def _aligned_bias(bias: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """The bias expanded to (B, H, Lq, Lk), its rows starting at multiples of 16 entries."""
    if bias is None:
        return None
    length = k.shape[-2]
    bias = bias.expand(*bias.shape[:-1], length)
    padded = F.pad(bias, (0, -length % 16))
    return padded[..., :length].expand(*q.shape[:3], length)


FUSED: dict[str, FusedTokens] = {"cpu": CpuFlash(), "cuda": CudaEfficient()}
"""The fused attention of each type of device."""


def fused_for(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> FusedTokens | None:
    """The fused attention that can take these tokens; None where only the portable path can."""
    fused = None if torch._C._are_functorch_transforms_active() else FUSED.get(q.device.type)
    if fused is None or q.numel() == 0 or k.numel() == 0 or not fused.supports(q, k, v):
        return None
    return None if mask.bias is not None and mask.bias.requires_grad else fused
