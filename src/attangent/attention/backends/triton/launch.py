"""Launch the Triton kernels: block sizes, operators that torch.compile sees, and their gradients."""

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.library import triton_op, wrap_triton

from attangent.attention.backends.triton import kernels

_KINDS = {
    "none": (0, 0, False, False),
    "tokens": (1, 0, False, False),
    "elu": (2, 0, False, False),
    "taylor": (2, 2, False, True),
    "learned-elu": (2, 0, True, True),
    "learned-gelu": (2, 1, True, True),
}
"""PREFIX, ACT, HAS_WEIGHT and HAS_ONE of each kind of prefix."""
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Blocks(NamedTuple):
    """Tile sizes and launch options of a kernel."""

    m: int
    n: int
    r: int
    warps: int
    stages: int


_BLOCKS = {
    "forward": {64: Blocks(128, 64, 32, 8, 2), 128: Blocks(64, 32, 16, 8, 1), 256: Blocks(32, 32, 16, 8, 1)},
    "tokens": {64: Blocks(64, 32, 16, 8, 1), 128: Blocks(32, 32, 16, 8, 1)},
    "prefix": {64: Blocks(64, 32, 16, 8, 1), 128: Blocks(16, 32, 16, 4, 1)},
}
"""By kernel and head size: the largest tiles of 16-bit inputs without spills on sm_80, 90, 100 and gfx942."""
_FLOAT32_BLOCKS = Blocks(32, 32, 16, 8, 1)


def blocks_for(kernel: str, d: int, dv: int, dtype: torch.dtype) -> Blocks:
    """Return the tiles of the "forward" kernel, or of the gradients of "tokens" or of the "prefix"."""
    if dtype == torch.float32:
        return _FLOAT32_BLOCKS
    sizes = _BLOCKS[kernel]
    wide = max(64, padded(max(d, dv)))
    return sizes.get(wide, sizes[max(sizes)])


def supports(d: int, dv: int, dtype: torch.dtype, gradients: bool) -> bool:
    """Return whether the kernels run without register spills: head sizes up to 256, up to 128 for gradients.

    Float32 needs three TF32 products per product; registers suffice for forward passes of heads up to 64.
    """
    wide = max(d, dv)
    if INTERPRETED:
        return wide <= 256 and dtype in (torch.float32, torch.bfloat16, torch.float16)
    if dtype == torch.float32:
        return wide <= 64 and not gradients
    return dtype in (torch.bfloat16, torch.float16) and wide <= (128 if gradients else 256)


def padded(size: int) -> int:
    """Return the power of two, at least 16, that holds `size`: tensor cores need 16."""
    return max(16, 1 << (size - 1).bit_length())


def precisions(dtype: torch.dtype) -> tuple[str, str]:
    """Return how products of tokens and of the prefix, which is float32, use the tensor cores."""
    if INTERPRETED:
        return "interpreted", "interpreted"
    if torch.version.hip:
        return "ieee", "ieee"
    # three TF32 products give float32 accuracy on tensor cores; one is finer than bfloat16 inputs
    return ("tf32x3", "tf32x3") if dtype == torch.float32 else ("tf32", "tf32")


def _launch(kernel: Any) -> Any:
    return kernel if INTERPRETED else wrap_triton(kernel)


class _Call(NamedTuple):
    """The arguments that forward and backward kernels share."""

    bias: Tensor
    prefix: tuple[Any, ...]
    strides: tuple[int, ...]
    mask_strides: tuple[int, ...]
    sizes: tuple[int, ...]
    factors: tuple[float, ...]
    flags: dict[str, Any]


def _call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    prefix: Sequence[Tensor],
    kind: str,
    causal: bool,
    scale: float,
    cap: float,
    prefix_cap: float,
    gain: float,
) -> _Call:
    code, act, has_weight, has_one = _KINDS[kind]
    nothing = q
    token_prefix = tuple(prefix) if kind == "tokens" else (nothing,) * 6
    features = list(prefix) if code == 2 else []
    weight = features[0] if has_weight else nothing
    offset = features[1] if has_weight else nothing
    Z, mass, level = features[-3:] if features else [nothing] * 3
    state_heads = Z.shape[0] if features else token_prefix[4].shape[-1] if kind == "tokens" else 1
    rows = (Z.shape[1] - has_one) if features else 0
    start_stride = token_prefix[4].stride(0) if kind == "tokens" and token_prefix[4].ndim == 2 else 0
    batch_bias = (0, 0, 0, 0) if bias is None else bias.expand(*q.shape[:3], k.shape[2]).stride()
    precision, prefix_precision = precisions(q.dtype)
    return _Call(
        nothing if bias is None else bias,
        (*token_prefix, weight, offset, Z, mass, level),
        (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        (*batch_bias, start_stride),
        (q.shape[1], k.shape[1], state_heads, q.shape[2], k.shape[2], rows, q.shape[3], v.shape[3]),
        (scale, cap or 1.0, prefix_cap or 1.0, gain),
        {
            "D": padded(q.shape[3]),
            "DV": padded(v.shape[3]),
            "CAUSAL": causal,
            "HAS_BIAS": bias is not None,
            "SOFTCAP": cap > 0,
            "PREFIX": code,
            "PREFIX_SOFTCAP": prefix_cap > 0,
            "ACT": act,
            "HAS_WEIGHT": has_weight,
            "HAS_ONE": has_one,
            "PRECISION": precision,
            "PREFIX_PRECISION": prefix_precision,
        },
    )


def _options(blocks: Blocks) -> dict[str, int]:
    return {"num_warps": blocks.warps, "num_stages": blocks.stages}


@triton_op("attangent::prefix_attention", mutates_args={})
def prefix_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    prefix: Sequence[Tensor],
    kind: str,
    causal: bool,
    scale: float,
    cap: float,
    prefix_cap: float,
    gain: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(e^A v + prefix) / (e^A 1 + prefix mass), the log of the denominator's size, and its sign.

    Args:
        q: Queries (B, H, Lq, d) with unit stride along d.
        k: Keys (B, Hkv, Lk, d), likewise.
        v: Values (B, Hkv, Lk, dv), likewise.
        bias: Added to the logits; broadcasts to (B, H, Lq, Lk).
        prefix: Tensors of the prefix, see `kernels`; by kind
            none: []; tokens: [c, u, share, log_size, start, length];
            elu and taylor: [Z, mass, level]; learned-elu and learned-gelu: [W, b, Z, mass, level].
        kind: Kind of the prefix.
        causal: Whether queries see only keys up to their position, the last aligned with the last.
        scale: Factor of the logits.
        cap: Soft cap of the token logits, 0 for none.
        prefix_cap: Soft cap of the virtual tokens' logits, 0 for none.
        gain: Factor of the queries in the feature map.

    Returns:
        The output (B, H, Lq, dv), and per row log|denominator| and its sign (B, H, Lq).
    """
    out = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    sign = torch.empty_like(lse)
    call = _call(q, k, v, bias, prefix, kind, causal, scale, cap, prefix_cap, gain)
    blocks = blocks_for("forward", q.shape[3], v.shape[3], q.dtype)
    grid = (triton.cdiv(q.shape[2], blocks.m), q.shape[0] * q.shape[1])
    _launch(kernels.forward_kernel)[grid](
        q, k, v, out, lse, sign, call.bias, *call.prefix, *call.strides, *call.mask_strides, *call.sizes,
        *call.factors, **call.flags, BLOCK_M=blocks.m, BLOCK_N=blocks.n, BLOCK_R=blocks.r, **_options(blocks),
    )  # fmt: skip
    return out, lse, sign


@triton_op("attangent::prefix_attention_backward", mutates_args={})
def prefix_attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    sign: Tensor,
    bias: Tensor | None,
    prefix: Sequence[Tensor],
    kind: str,
    causal: bool,
    scale: float,
    cap: float,
    prefix_cap: float,
    gain: float,
) -> list[Tensor]:
    """Gradients of q, k, v and of the prefix's trained tensors, from the saved logsumexp.

    Returns:
        [dq, dk, dv] and, by kind, tokens: [dc, du, dshare]; elu and taylor: [dZ, dmass]; learned:
        [dW, db, dZ, dmass].
    """
    grad = grad.contiguous()
    delta = (grad.float() * out.float()).sum(dim=-1)
    call = _call(q, k, v, bias, prefix, kind, causal, scale, cap, prefix_cap, gain)
    head_sizes = q.shape[3], v.shape[3], q.dtype
    blocks = blocks_for("tokens", *head_sizes)
    saved = (grad, lse, sign, delta)
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    dk = torch.empty(k.shape, dtype=k.dtype, device=q.device)
    dvalues = torch.empty(v.shape, dtype=v.dtype, device=q.device)
    _launch(kernels.query_gradient_kernel)[triton.cdiv(q.shape[2], blocks.m), q.shape[0] * q.shape[1]](
        q, k, v, *saved, dq, call.bias, *call.prefix, *call.strides, *call.mask_strides, *call.sizes,
        *call.factors, **call.flags, BLOCK_M=blocks.m, BLOCK_N=blocks.n, BLOCK_R=blocks.r, **_options(blocks),
    )  # fmt: skip
    heads, token_heads, _, q_length, k_length, _, d, dv = call.sizes
    token_flags = {name: call.flags[name] for name in _TOKEN_FLAGS}
    _launch(kernels.key_gradient_kernel)[triton.cdiv(k.shape[2], blocks.n), k.shape[0] * k.shape[1]](
        q, k, v, *saved, dk, dvalues, call.bias, *call.strides, *call.mask_strides[:-1], heads, token_heads,
        q_length, k_length, d, dv, *call.factors[:2], **token_flags, BLOCK_M=blocks.m, BLOCK_N=blocks.n,
        **_options(blocks),
    )  # fmt: skip
    blocks = blocks_for("prefix", *head_sizes)
    return [dq, dk, dvalues, *_prefix_gradients(q, saved, prefix, kind, call, blocks)]


_TOKEN_FLAGS = ("D", "DV", "CAUSAL", "HAS_BIAS", "SOFTCAP", "PRECISION")


def _prefix_gradients(
    q: Tensor, saved: tuple[Tensor, ...], prefix: Sequence[Tensor], kind: str, call: _Call, blocks: Blocks
) -> list[Tensor]:
    """One partial sum per batch row, added by torch: the same digits on every run."""
    if kind == "none":
        return []
    heads, _, state_heads, q_length, _, rows, d, dv = call.sizes
    tiles = {"BLOCK_M": blocks.m, "BLOCK_R": blocks.r, **_options(blocks)}
    flags = call.flags
    shared = {name: flags[name] for name in ("D", "DV", "PREFIX_PRECISION")}
    if kind == "tokens":
        c, u, share, log_size, start, length = prefix
        partial = [torch.zeros(q.shape[0], *each.shape, device=q.device) for each in (c, u, share)]
        grid = (triton.cdiv(len(c), blocks.r), state_heads, q.shape[0])
        _launch(kernels.token_prefix_gradient_kernel)[grid](
            q, *saved, c, u, share, log_size, start, length, *partial, *q.stride()[:3], heads, state_heads,
            q_length, len(c), d, dv, call.factors[0], call.factors[2],
            PREFIX_SOFTCAP=flags["PREFIX_SOFTCAP"], **shared, **tiles,
        )  # fmt: skip
        return [each.sum(dim=0) for each in partial]
    weight, offset, Z, mass, level = call.prefix[-5:]
    trained = (weight, offset, Z, mass) if flags["HAS_WEIGHT"] else (Z, mass)
    partial = [torch.empty(q.shape[0], *each.shape, device=q.device) for each in trained]
    targets = partial if flags["HAS_WEIGHT"] else [partial[0], partial[0], *partial]
    grid = (triton.cdiv(rows, tiles["BLOCK_R"]), state_heads, q.shape[0])
    _launch(kernels.feature_prefix_gradient_kernel)[grid](
        q, *saved, weight, offset, Z, mass, level, *targets, *q.stride()[:3], heads, state_heads, q_length,
        rows, d, dv, call.factors[3], ACT=flags["ACT"], HAS_WEIGHT=flags["HAS_WEIGHT"],
        HAS_ONE=flags["HAS_ONE"],
        **shared, **tiles,
    )  # fmt: skip
    return [each.sum(dim=0) for each in partial]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, v, bias, prefix, *rest = inputs
    ctx.save_for_backward(q, k, v, *output, bias, *prefix)
    ctx.rest = rest
    ctx.mark_non_differentiable(output[1], output[2])


def _gradients(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    q, k, v, out, lse, sign, bias, *prefix = ctx.saved_tensors
    dq, dk, dv, *of_prefix = prefix_attention_backward(grad, q, k, v, out, lse, sign, bias, prefix, *ctx.rest)
    # log sizes, offsets and levels are not trained
    padding: list[Any] = [None] * (len(prefix) - len(of_prefix))
    return dq, dk, dv, None, [*of_prefix, *padding], *([None] * len(ctx.rest))


prefix_attention.register_autograd(  # pyright: ignore[reportFunctionMemberAccess]
    _gradients, setup_context=_save
)


@triton_op("attangent::prefix_decode", mutates_args={})
def prefix_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    prefix: Sequence[Tensor],
    scale: float,
    cap: float,
    prefix_cap: float,
) -> tuple[Tensor, Tensor]:
    """`prefix_attention` of one query per row over split keys, with a token prefix per row and token head.

    Args:
        q: Queries (B, H, 1, d).
        k: Keys (B, Hkv, Lk, d).
        v: Values (B, Hkv, Lk, dv).
        bias: Added to the logits; broadcasts to (B, H, 1, Lk).
        prefix: [] or [c, u, share, log_size, start, length] with start and length (Hkv) or (B, Hkv).
        scale: Factor of the logits.
        cap: Soft cap of the token logits, 0 for none.
        prefix_cap: Soft cap of the virtual tokens' logits, 0 for none.

    Returns:
        The output (B, H, 1, dv) and the logsumexp (B, H, 1).
    """
    batch, heads, _, d = q.shape
    token_heads, k_length = k.shape[1:3]
    dv = v.shape[3]
    block = decode_block(d, dv)
    splits, per_split = _splits(batch * token_heads, k_length, block)
    prefix_splits = min(8, triton.cdiv(len(prefix[0]), 4 * block)) if prefix else 0
    parts = splits + prefix_splits
    members = heads // token_heads
    partial = torch.empty(batch * token_heads * parts * members, dv, device=q.device)
    total = torch.empty(len(partial), device=q.device)
    top = torch.empty_like(total)
    tokens = tuple(prefix) if prefix else (q,) * 6
    precision, prefix_precision = precisions(q.dtype)
    bias_b, bias_h, _, bias_n = (0,) * 4 if bias is None else bias.expand(batch, heads, 1, k_length).stride()
    start_stride = tokens[4].stride(0) if prefix and tokens[4].ndim == 2 else 0
    _launch(kernels.decode_kernel)[batch * token_heads, parts](
        q, k, v, partial, total, top, q if bias is None else bias, *tokens, *q.stride()[:2],
        *k.stride()[:3], *v.stride()[:3], bias_b, bias_h, bias_n, start_stride, heads,
        token_heads, k_length, per_split, splits, prefix_splits, d, dv, scale, cap or 1.0, prefix_cap or 1.0,
        D=padded(d), DV=padded(dv), GROUP=padded(members), BLOCK_N=block, HAS_BIAS=bias is not None,
        SOFTCAP=cap > 0, PREFIX=1 if prefix else 0, PREFIX_SOFTCAP=prefix_cap > 0, PRECISION=precision,
        PREFIX_PRECISION=prefix_precision, num_warps=4, num_stages=2,
    )  # fmt: skip
    out = torch.empty(batch, heads, 1, dv, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, 1, device=q.device)
    _launch(kernels.combine_kernel)[(batch * heads,)](
        partial, total, top, out, lse, heads, token_heads, parts, dv,
        DV=padded(dv), PARTS=padded(parts), num_warps=4,
    )  # fmt: skip
    return out, lse


def decode_block(d: int, dv: int) -> int:
    """Return how many keys a decoding tile holds."""
    return 64 if max(padded(d), padded(dv)) <= 64 else 32


def _splits(programs: int, length: int, block: int) -> tuple[int, int]:
    """Return how many programs share the keys of a row, and how many keys each takes."""
    wanted = max(1, min(32, math.ceil(256 / programs)))  # about two waves on a large GPU
    tiles = max(1, math.ceil(length / block))
    per_split = math.ceil(tiles / min(wanted, tiles)) * block
    return max(1, math.ceil(length / per_split)), per_split


@prefix_attention.register_fake  # pyright: ignore[reportFunctionMemberAccess]
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    rows = q.new_empty(q.shape[:3], dtype=torch.float32)
    return q.new_empty(*q.shape[:3], v.shape[3]), rows, torch.empty_like(rows)


@prefix_decode.register_fake  # pyright: ignore[reportFunctionMemberAccess]
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return q.new_empty(*q.shape[:3], v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)
