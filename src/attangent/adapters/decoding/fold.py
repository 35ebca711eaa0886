"""Texts without gradients: the same formula in few operations, as each costs more than what it computes.

    out = (1 - share) o + share u,  share = sigmoid(l - lse)

with (o, lse) the attention over the tokens and (u, l) that over the prefix alone: its output
phi(q) Z / phi(q) k and the logarithm of its mass phi(q) k. Units, masses and scales are folded into the
weights once, when a text begins; more than one query, or a first key, begins one. Compiled code (native.py)
does the merging of single queries where it is installed.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attangent.adapters.call import AttentionCall
from attangent.adapters.decoding.native import Merge, merge_anchors, merge_learned
from attangent.attention import Prefix
from attangent.attention.features import Anchors, Calibrated, Learned
from attangent.attention.fused.tokens import FUSED
from attangent.attention.masks import Mask
from attangent.attention.prefix import query_gain


class Alone(NamedTuple):
    """The prefix alone.

    attend: from queries (B, H, L, d) of at least float32 to u (B, H, L, dv) and l (B, H, L, 1), or
        (1, H, 1, 1).
    merge: compiled code that merges it into the attention of single queries.
    """

    attend: Callable[[Tensor], tuple[Tensor, Tensor]]
    merge: Merge | None


def is_plain(call: AttentionCall) -> bool:
    """Whether this is something that `decode` can do: no gradient and nothing out of the way."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if call.dropout or call.softcap is not None or call.bias is not None:
        return False
    device = call.q.device.type
    fused = FUSED.get(device)
    supported = fused is not None and fused.supports(call.q, call.k, call.v)
    return supported and not torch.is_autocast_enabled(device)


def decode(call: AttentionCall, alone: Alone) -> Tensor:
    """Attention of one query for each sequence and head, or of all those of a prompt if there is no mask.

    The query sees at least one token, as one that is being decoded sees itself; those of a prompt see
    themselves and what is before them.
    """
    q, mask = call.q, call.mask
    added = _no_mask(q) if mask is None else Mask(_added_to_scores(mask, q.dtype))
    out, lse, _ = FUSED[q.device.type].forward(q, call.k, call.v, added, call.scale)
    if alone.merge is not None and alone.merge(out, lse, q):
        return out
    if out.dtype == lse.dtype:
        u, level = alone.attend(q)
        return out.lerp_(u, (level - lse.unsqueeze(-1)).sigmoid_())
    u, level = alone.attend(q.to(lse.dtype))
    share = (level - lse.unsqueeze(-1)).sigmoid_()
    return torch.lerp(out.to(u.dtype), u, share).to(q.dtype)


_NO_MASK, _CAUSAL = Mask(None), Mask(None, causal=True)


def _no_mask(q: Tensor) -> Mask:
    return _NO_MASK if q.shape[2] == 1 else _CAUSAL


def _added_to_scores(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return (torch.where(mask, 0.0, -math.inf) if mask.dtype == torch.bool else mask).to(dtype)


_version_of = Tensor._version.__get__  # pyright: ignore[reportAttributeAccessIssue]


class Folded(NamedTuple):
    """A folded prefix, the tensors it was made from, and the sum of the versions they had."""

    alone: Alone | None
    tensors: tuple[Tensor, ...]
    versions: int

    @classmethod
    def of(cls, prefix: Prefix, scale: float, query: Tensor) -> "Folded":
        """`fold` with what is needed to see whether it still holds."""
        tensors = tuple(prefix.state_dict(keep_vars=True).values()) if isinstance(prefix, nn.Module) else ()
        tensors = tuple(tensor for tensor in tensors if not tensor.is_inference())
        return cls(fold(prefix, scale, query), tensors, sum(map(_version_of, tensors)))

    def serves(self, call: AttentionCall) -> bool:
        """Whether this is the next query of the text it was made for, and no tensor was written to since.

        Asked of every layer for every token, so only what may differ from one token to the next is looked at.
        """
        if call.q.shape[2] != 1 or call.k.shape[2] == 1 or call.dropout:
            return False
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        return sum(map(_version_of, self.tensors)) == self.versions  # versions only grow


def fold(prefix: Prefix, scale: float, query: Tensor) -> Alone | None:
    """The prefix alone for queries of the same heads and type, with everything folded into its weights.

    None for maps that have no such form, and where a head has no mass or values without mass.
    """
    dtype, heads = torch.promote_types(query.dtype, torch.float32), query.shape[1]
    features, (Z, masses) = prefix.features, (weight.detach().to(dtype) for weight in prefix.weights())
    masses = masses.abs() if features.positive else masses
    gain, dim = query_gain(scale, features.dim), features.dim
    mean, size, level = Z.new_zeros(1, dim), Z.new_ones(1), Z.new_zeros(1)
    if isinstance(features, Calibrated):
        mean, size, level, features = features.mean, features.scale, features.level, features.inner
    mean, size, level = (part.to(Z) for part in (mean, size, level))
    if isinstance(features, Anchors) and features.softcap is None:
        return _folded_anchors(features.acting_keys(Z.dtype).to(Z), Z, masses, mean, size, level, gain, heads)
    if isinstance(features, Learned) and features.activation == "gelu":
        weights = features.acting_weight(Z.dtype).to(Z), features.bias.to(Z)
        return _folded_learned(*weights, Z, masses, mean, size, level, gain, heads)
    return None


def _folded_anchors(
    keys: Tensor,
    Z: Tensor,
    masses: Tensor,
    mean: Tensor,
    size: Tensor,
    level: Tensor,
    gain: float,
    heads: int,
) -> Alone | None:
    """Attention over the anchors as over so many tokens, log k added to their scores: u and its logsumexp."""
    empty = masses == 0
    if bool(empty.all(dim=1).any()) or bool((Z[empty] != 0).any()):
        return None
    keys = (keys / size[:, None, None] / math.sqrt(keys.shape[-1])).expand(len(Z), -1, -1)
    shift = level[:, None] - (keys @ mean.unsqueeze(-1)).squeeze(-1)
    bias = (masses.log() + shift).repeat_interleave(heads // len(Z), dim=0).unsqueeze(1)
    tokens, U = (gain * keys).contiguous(), Z / torch.where(empty, 1, masses).unsqueeze(-1)
    fused, added = FUSED[Z.device.type], Mask(bias.unsqueeze(0))
    columns, values = (part.repeat_interleave(heads // len(Z), dim=0) for part in (tokens.mT, U))

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        batch = len(x)
        u, lse, _ = fused.forward(
            x, tokens.expand(batch, -1, -1, -1), U.expand(batch, -1, -1, -1), added, 1.0
        )
        return u, lse.unsqueeze(-1)

    return Alone(attend, merge_anchors(columns, bias, values))


def _folded_learned(
    weight: Tensor,
    bias: Tensor,
    Z: Tensor,
    masses: Tensor,
    mean: Tensor,
    size: Tensor,
    level: Tensor,
    gain: float,
    heads: int,
) -> Alone | None:
    """u = (Z_0 + gelu(y) Z_1) / k_0 and l = log k_0 where the constant feature has all the mass.

    With t = y/sqrt 2, gelu(y) = (t + t erf t)/sqrt 2.
    """
    if bool((masses[:, 0] <= 0).any()) or bool((masses[:, 1:] != 0).any()):
        return None
    weight, bias = weight.expand(len(Z), -1, -1), bias.expand(len(Z), -1)
    weight = weight / size[:, None, None] * math.sqrt(0.5)
    bias = (bias * math.sqrt(0.5) - (weight @ mean.unsqueeze(-1)).squeeze(-1)).unsqueeze(1)
    columns, Z = (gain * weight).mT, Z / masses[:, :1, None]
    constant = (masses[:, :1].log() + level[:, None]).unsqueeze(2)
    parts = bias, columns, Z[:, :1], Z[:, 1:] * math.sqrt(0.5), constant
    bias, columns, first, rest, constant = (p.repeat_interleave(heads // len(Z), dim=0) for p in parts)
    constant = constant.unsqueeze(0)

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        single, length = len(x) == 1, x.shape[2]
        rows = x.squeeze(0) if single else x.transpose(0, 1).flatten(1, 2)
        t = torch.baddbmm(bias, rows, columns)
        u = torch.baddbmm(first, t.addcmul_(t, t.erf()), rest)
        return u.unsqueeze(0) if single else u.unflatten(1, (-1, length)).transpose(0, 1), constant

    return Alone(attend, merge_learned(columns, bias, first, rest, constant))
