"""Attention with a prefix in plain torch operations, for every device, mask, option and derivative.

Merging a prefix into token attention uses compiled code if it can, with its own backward pass. With o and
lse from the tokens, t = log(e^lse + phi(q) k) and out the merged output,

    do = e^(lse - t) grad,  dlse = e^(lse - t) grad . (o - out)

`prefix_side` has the gradients of the prefix.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad

from attangent.attention._inputs import check_merge, check_scale, compute_dtype
from attangent.attention.backends.cpu.library import CompiledPrefix
from attangent.attention.backends.cpu.prepare import prepare, takes
from attangent.attention.backends.torch.prefix_side import TorchPrefix
from attangent.attention.backends.torch.tokens import GradientRows, only_wanted
from attangent.attention.features.base import FeatureMap
from attangent.attention.masks import Mask
from attangent.attention.prefix import (
    Prefix,
    RaggedTokens,
    joined_heads,
    largest_exponent,
    query_gain,
)
from attangent.attention.shapes import Keys, Outputs, PerRow, Queries, RowNumbers, StateMass, StateZ, Values

_LOGITS = 1 << 23


def token_part(
    q: Queries,
    k: Keys,
    v: Values,
    mask: Mask,
    scale: float,
    *,
    softcap: float | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[Outputs, RowNumbers]:
    """Compute softmax(scale q k' + bias) v (B, H, Lq, dv) and the logsumexp of its logits (B, H, Lq).

    A row that sees no token has output 0 and logsumexp -inf. Dropout acts on the probabilities.
    """
    q, k, v = (tensor.to(compute_dtype(q.dtype)) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
    # the root of the scale on both sides, as torch's own attention does: equal bits without a prefix
    root = math.sqrt(abs(scale))
    logits = (q * math.copysign(root, scale)) @ (k * root).mT
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    logits = _masked(logits, mask)
    probabilities = torch.softmax(logits, dim=-1)
    lse = torch.logsumexp(logits, dim=-1)
    if mask.empty is not None:
        probabilities = probabilities.masked_fill(mask.empty.unsqueeze(-1), 0)
        lse = lse.masked_fill(mask.empty, -torch.inf)
    if dropout > 0:
        drawn = torch.rand(probabilities.shape, generator=generator, device=q.device, dtype=q.dtype)
        probabilities = probabilities * ((drawn >= dropout).to(drawn.dtype) / (1 - dropout))
    return probabilities @ v, lse


def attend_in_chunks(
    queries: Float[Tensor, "heads n dim"],
    keys: Float[Tensor, "heads m dim"],
    values: Float[Tensor, "heads m value_dim"],
    scale: float,
) -> tuple[Float[Tensor, "heads n value_dim"], Float[Tensor, "heads n"]]:
    """Compute `token_part` per head without a mask; at most `_LOGITS` logits exist at once."""
    heads, m, _ = keys.shape
    k = keys.unsqueeze(0)
    v = values.unsqueeze(0)
    parts = []
    for q in queries.unsqueeze(0).split(max(1, _LOGITS // max(1, heads * m)), dim=2):
        nothing = torch.ones(1, 1, q.shape[2], dtype=torch.bool, device=q.device)
        parts.append(token_part(q, k, v, Mask() if m else Mask(empty=nothing), scale))
    return torch.cat([out for out, _ in parts], dim=2)[0], torch.cat([lse for _, lse in parts], dim=2)[0]


def _masked(logits: Float[Tensor, "batch heads queries keys"], mask: Mask) -> Tensor:
    if mask.bias is not None:
        logits = logits + mask.bias.to(logits.dtype)
    if mask.causal:
        later = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(later, -torch.inf)
    if mask.empty is not None:
        logits = logits.masked_fill(mask.empty.unsqueeze(-1), 0)  # keeps NaN out of the gradient
    return logits


def merged(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Merge two (output, logsumexp) pairs into the attention over the tokens of both."""
    out, lse = first
    other_out, other_lse = second
    total = torch.logaddexp(lse, other_lse)
    share = (lse - total).exp().unsqueeze(-1)
    other_share = (other_lse - total).exp().unsqueeze(-1)
    return out * share + other_out * other_share, total


def merge_prefix(q: Tensor, output: Tensor, logsumexp: Tensor, state: Prefix, scale: float) -> Tensor:
    """Compute (e^lse o + phi(q) Z) / (e^lse + phi(q) k): add a prefix to any token attention.

    Args:
        q: Queries (B, H, L, d).
        output: Output o of the token attention (B, H, L, dv).
        logsumexp: Logsumexp of its logits (B, H, L).
        state: The prefix.
        scale: Factor of the logits.

    Returns:
        The merged output (B, H, L, dv), in at least float32.

    Raises:
        AttangentError: If shapes, dtypes or devices do not fit together.

    Example:
        >>> from attangent.attention import PrefixState
        >>> from attangent.attention.features import Elu
        >>> q = torch.randn(1, 2, 5, 4)
        >>> merge_prefix(q, q, torch.zeros(1, 2, 5), PrefixState.zero(Elu(4), heads=2), 0.5).equal(q)
        True
    """
    check_merge(q, output, logsumexp)
    scale = check_scale(scale, q.shape[-1])
    if isinstance(state, RaggedTokens):
        groups = state.groups(q.shape[1], q.shape[1])
        outs = [_merged(q[:, at], output[:, at], logsumexp[:, at], own, scale) for at, _, own in groups]
        return joined_heads(outs, groups)
    return _merged(q, output, logsumexp, state, scale)


class PrefixCall(NamedTuple):
    """The arguments of both passes that are not differentiated.

    Attributes:
        features: The feature map.
        scale: Factor of the logits.
        cap: From `largest_exponent`.
        mask: The mask of the tokens.
    """

    features: FeatureMap
    scale: float
    cap: float
    mask: Mask = Mask()

    def compiled(self, Z: StateZ, mass: StateMass) -> CompiledPrefix | None:
        """Return the prefix for compiled code; None if there is none."""
        return prepare(self.features, Z, mass, query_gain(self.scale, self.features.dim), self.cap)


def _merged(q: Queries, output: Outputs, logsumexp: RowNumbers, state: Prefix, scale: float) -> Outputs:
    dtype = compute_dtype(q.dtype)
    Z, mass = state.weights()
    call = PrefixCall(state.features, scale, largest_exponent(dtype, Z.dtype, mass.dtype))
    inputs = q.to(dtype), output.to(dtype), logsumexp.to(dtype), Z, mass
    if _can_merge(call, *inputs):
        return _CompiledMerge.apply(call, *inputs, *call.features.trained())
    return _merged_plainly(call, *inputs)


def _can_merge(
    call: PrefixCall, q: Queries, out: Outputs, lse: RowNumbers, Z: StateZ, mass: StateMass
) -> bool:
    """Return whether compiled code can merge these.

    Queries that see no token are left to torch. Compiled code gives tokens at least e^-60 of the largest
    weight of the prefix, which is too much if the largest feature of a map has no mass.
    """
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    if q.numel() == 0 or q.dtype != torch.float32:
        return False
    laid_out = takes(q, out) and type(lse) is Tensor and lse.dtype == torch.float32
    with torch.no_grad():
        return laid_out and not bool(torch.isneginf(lse).any()) and call.compiled(Z, mass) is not None


class _CompiledMerge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: PrefixCall, *inputs: Tensor):
        q, out, lse, Z, mass, *_ = inputs
        prefix = call.compiled(Z, mass)
        assert prefix is not None
        result = out.clone()
        total, sign = prefix.forward(q, result, lse, for_backward=True)
        ctx.save_for_backward(*inputs, result, total, sign)
        ctx.call = call
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, result, total, sign = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            # views stand for the inputs, because o and lse may themselves depend on q
            inputs = [*(tensor.view_as(tensor) for tensor in inputs[:5]), *inputs[5:]]
            again = _merged_plainly(ctx.call, *inputs[:5])
            return None, *differentiable_backward(again, inputs, wanted, grad)
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        rows = GradientRows(inputs[0], result, total, sign, grad, None)
        return None, *_merge_gradients(ctx.call, inputs, wanted, rows)


def _merge_gradients(
    call: PrefixCall, inputs: Sequence[Tensor], wanted: Sequence[bool], rows: GradientRows
) -> tuple[Tensor | None, ...]:
    q, out, lse, Z, mass, *_ = inputs
    _, result, total, sign, grad, _ = rows
    keep = torch.exp(lse - total) if sign is None else torch.exp(lse - total) * sign
    grad_lse = keep * torch.linalg.vecdot(grad, out - result)
    grad_q = torch.zeros_like(q) if wanted[0] else None
    prefix = call.compiled(Z, mass)
    assert prefix is not None
    of_prefix = prefix.backward(rows._replace(grad_q=grad_q))
    grads = grad_q, keep.unsqueeze(-1) * grad, grad_lse, *of_prefix
    return only_wanted(grads, wanted)


def differentiable_backward(
    out: Outputs, inputs: Sequence[Tensor], wanted: Sequence[bool], grad: Outputs
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the wanted inputs, themselves differentiable; None for the others."""
    chosen = [tensor for tensor, want in zip(inputs, wanted, strict=True) if want]
    grads = iter(torch.autograd.grad(out, chosen, grad, create_graph=True, allow_unused=True))
    return tuple(next(grads) if want else None for want in wanted)


def _merged_plainly(
    call: PrefixCall, q: Queries, output: Outputs, lse: RowNumbers, Z: StateZ, mass: StateMass
) -> Outputs:
    numerator, prefix_mass, shift = _prefix_terms(call, q, Z, mass)
    log_tokens = lse.unsqueeze(-1)
    # relative to the larger of the two logarithms, so that neither exponential overflows
    top = torch.maximum(log_tokens.detach(), prefix_mass.detach().abs().log() + shift)
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    tokens = torch.exp(log_tokens - top)
    prefix = torch.exp((shift - top).clamp(max=call.cap))
    total = tokens + prefix_mass * prefix
    nothing = total == 0
    result = (output * tokens + numerator * prefix) / torch.where(nothing, 1, total)
    return torch.where(nothing, 0, result)


def _prefix_terms(call: PrefixCall, q: Queries, Z: StateZ, mass: StateMass) -> tuple[Outputs, PerRow, PerRow]:
    """Return (n, m, shift) with phi(q) Z = n exp(shift) and phi(q) k = m exp(shift).

    Differentiable; the shift counts as a constant.
    """
    prefix = TorchPrefix.of(call.features, Z.to(q.dtype), mass.to(q.dtype), call.scale, call.cap)
    w, shift = call.features.evaluate(prefix.inputs(q), prefix.sizes)
    m = w @ prefix.k.unsqueeze(-1)
    shift = torch.zeros_like(m) if shift is None else shift.detach()
    rows = q.shape[:-1]
    return (w @ prefix.Z).reshape(*rows, Z.shape[-1]), m.reshape(*rows, 1), shift.reshape(*rows, 1)


def portable_attention(
    q: Queries, k: Keys, v: Values, state: Prefix, mask: Mask, scale: float, **options: Any
) -> Outputs:
    """Compute NTK-Attention by `token_part`, which takes the options, and `merge_prefix`."""
    output, lse = token_part(q, k, v, mask, scale, **options)
    return merge_prefix(q, output, lse, state, scale).to(q.dtype)
