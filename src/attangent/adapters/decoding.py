"""One new query at a time: the same formula in few operations, as each costs more than what it computes.

    out = (1 - share) o + share u,  share = sigmoid(l - lse)

with (o, lse) the attention over the tokens and (u, l) that over the prefix alone: its output
phi(q) Z / phi(q) k and the logarithm of its mass phi(q) k. Units, masses and scales are folded into the
weights once, when a text begins; more than one query, or a first key, begins one.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attangent.attention import Prefix
from attangent.attention.features import Anchors, Calibrated, Learned
from attangent.attention.kernels import KERNELS
from attangent.attention.masks import Mask
from attangent.attention.prefix import query_gain

Alone = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From queries (heads of the state, rows, d) of at least float32 to u (heads, rows, dv) and l of each row."""


def one_query(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> bool:
    """Whether this is a step of decoding that `decode` can take: no gradient and nothing out of the way."""
    if q.shape[2] != 1 or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if (
        options.get("dropout")
        or options.get("softcap") is not None
        or options.get("position_bias") is not None
    ):
        return False
    kernel = KERNELS.get(q.device.type)
    supported = kernel is not None and kernel.supports(q, k, v)
    return supported and not torch.is_autocast_enabled(q.device.type)


def decode(
    q: Tensor, k: Tensor, v: Tensor, alone: Alone, heads: int, mask: Tensor | None, scale: float
) -> Tensor:
    """Attention of one query for each sequence and head, (B, H, 1, dv).

    The query sees at least one token, as one that is being decoded sees itself.
    """
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -math.inf)
    bias = mask if mask is None or mask.dtype == q.dtype else mask.to(q.dtype)
    out, lse, _ = KERNELS[q.device.type].forward(q, k, v, Mask(bias), scale)
    if len(q) > 1 or q.dtype != lse.dtype:
        return _merged(q, out, lse, alone, heads)
    rows = heads, q.shape[1] // heads, -1
    u, level = alone(q.view(rows))
    out.view(rows).lerp_(u, (level - lse.view(rows)).sigmoid_())
    return out


def _merged(q: Tensor, out: Tensor, lse: Tensor, alone: Alone, heads: int) -> Tensor:
    """The same for several sequences, or tokens of less precision than the prefix."""
    u, level = alone(_by_head(q, heads).to(lse.dtype))
    share = torch.sigmoid(level - _by_head(lse.unsqueeze(-1), heads))
    merged = torch.lerp(_by_head(out, heads).to(u.dtype), u, share).to(q.dtype)
    return merged.view(heads, len(q), -1, merged.shape[-1]).transpose(0, 1).reshape(out.shape)


def _by_head(part: Tensor, heads: int) -> Tensor:
    """(B, H, 1, c) as (heads of the state, rows, c)."""
    batch, all_heads, _, size = part.shape
    return part.reshape(batch, heads, all_heads // heads, size).transpose(0, 1).reshape(heads, -1, size)


class Folded(NamedTuple):
    """A folded prefix with its heads, and the tensors it was made from as they were."""

    alone: Alone | None
    heads: int
    tensors: tuple[Tensor, ...]
    versions: tuple[int, ...]

    @classmethod
    def of(cls, prefix: Prefix, scale: float) -> "Folded":
        """`fold` with what is needed to see whether it still holds."""
        alone, heads = fold(prefix, scale) or (None, 0)
        tensors = tuple(prefix.state_dict(keep_vars=True).values()) if isinstance(prefix, nn.Module) else ()
        tensors = tuple(tensor for tensor in tensors if not tensor.is_inference())
        return cls(alone, heads, tensors, tuple(tensor._version for tensor in tensors))

    def is_fresh(self) -> bool:
        """Whether no tensor has been written to since."""
        return all(t._version == seen for t, seen in zip(self.tensors, self.versions, strict=True))


def fold(prefix: Prefix, scale: float) -> tuple[Alone, int] | None:
    """The prefix alone with everything folded into its weights, and its heads.

    None for maps that have no such form, and where a head has no mass or values without mass.
    """
    features, (Z, k) = prefix.features, (weight.detach() for weight in prefix.weights())
    if Z.dtype in (torch.bfloat16, torch.float16):
        Z, k = Z.float(), k.float()
    k = k.abs() if features.positive else k
    gain, dim = query_gain(scale, features.dim), features.dim
    mean, size, level = Z.new_zeros(1, dim), Z.new_ones(1), Z.new_zeros(1)
    if isinstance(features, Calibrated):
        mean, size, level, features = features.mean, features.scale, features.level, features.inner
    mean, size, level = (part.to(Z) for part in (mean, size, level))
    if isinstance(features, Anchors) and features.softcap is None:
        return _folded_anchors(features.keys.to(Z), Z, k, mean, size, level, gain)
    if isinstance(features, Learned) and features.activation == "gelu":
        weights = features.weight.to(Z), features.bias.to(Z)
        return _folded_learned(*weights, Z, k, mean, size, level, gain)
    return None


def _folded_anchors(
    keys: Tensor, Z: Tensor, k: Tensor, mean: Tensor, size: Tensor, level: Tensor, gain: float
) -> tuple[Alone, int] | None:
    """u = softmax(s) U and l = logsumexp(s) with s the scores of the anchors plus log k."""
    empty = k == 0
    if bool(empty.all(dim=1).any()) or bool((Z[empty] != 0).any()):
        return None
    keys = (keys / size[:, None, None] / math.sqrt(keys.shape[-1])).expand(len(Z), -1, -1)
    shift = level[:, None] - (keys @ mean.unsqueeze(-1)).squeeze(-1)
    bias, columns = (k.log() + shift).unsqueeze(1), (gain * keys).mT.contiguous()
    U = Z / torch.where(empty, 1, k).unsqueeze(-1)

    def alone(x: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.baddbmm(bias, x, columns)
        return torch.bmm(torch.softmax(scores, dim=-1), U), torch.logsumexp(scores, dim=-1, keepdim=True)

    return alone, len(Z)


def _folded_learned(
    weight: Tensor, bias: Tensor, Z: Tensor, k: Tensor, mean: Tensor, size: Tensor, level: Tensor, gain: float
) -> tuple[Alone, int] | None:
    """u = (Z_0 + gelu(y) Z_1) / k_0 and l = log k_0 where the constant feature has all the mass.

    With t = y/sqrt 2, gelu(y) = (t + t erf t)/sqrt 2.
    """
    if bool((k[:, 0] <= 0).any()) or bool((k[:, 1:] != 0).any()):
        return None
    weight, bias = weight.expand(len(Z), -1, -1), bias.expand(len(Z), -1)
    weight = weight / size[:, None, None] * math.sqrt(0.5)
    bias = (bias * math.sqrt(0.5) - (weight @ mean.unsqueeze(-1)).squeeze(-1)).unsqueeze(1)
    columns, Z = (gain * weight).mT.contiguous(), Z / k[:, :1, None]
    first, rest = Z[:, :1].contiguous(), Z[:, 1:] * math.sqrt(0.5)
    constant = (k[:, :1].log() + level[:, None]).unsqueeze(2)

    def alone(x: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.baddbmm(bias, x, columns)
        return torch.baddbmm(first, t.addcmul_(t, t.erf()), rest), constant

    return alone, len(Z)
