"""Texts without gradients: the same formula in few operations, as each costs more than what it computes.

    out = (1 - share) o + share u,  share = sigmoid(l - lse)

with (o, lse) the attention over the tokens and (u, l) that over the prefix alone: its output
phi(q) Z / phi(q) k and the logarithm of its mass phi(q) k. Units, masses and scales are folded into the
weights once, when a text begins; more than one query, or a first key, begins one. Compiled code (native.py)
does the merging of single queries where it is installed.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attangent.adapters.call import AttentionCall
from attangent.attention import Prefix
from attangent.attention.backends.decode.alone import Alone, Inputs
from attangent.attention.backends.decode.anchors import fold_anchors, fold_ragged
from attangent.attention.backends.decode.elu import fold_elu
from attangent.attention.backends.decode.learned import fold_learned
from attangent.attention.backends.decode.rows import together
from attangent.attention.backends.torch.tokens import FUSED
from attangent.attention.features import Anchors, Calibrated, Elu, Learned
from attangent.attention.masks import Mask
from attangent.attention.prefix import query_gain
from attangent.attention.ragged import Ragged


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
    return alone.merged(out, lse, q)


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
    is_nothing: bool = False
    """Whether the prefix has neither mass nor values, so that the model's own attention is the answer."""

    @classmethod
    def of(cls, prefix: Prefix, scale: float, query: Tensor) -> "Folded":
        """`fold` with what is needed to see whether it still holds."""
        tensors = _watched(prefix)
        nothing = not isinstance(prefix, Ragged) and not any(bool(part.any()) for part in prefix.weights())
        return cls(fold(prefix, scale, query), tensors, sum(map(_version_of, tensors)), nothing)

    @classmethod
    def of_rows(
        cls, groups: Sequence[tuple[Sequence[int], Prefix | None]], scale: float, query: Tensor
    ) -> "Folded | None":
        """`of` for prefixes of groups of rows; None where no row has one."""
        prefixes = [prefix for _, prefix in groups if prefix is not None]
        if not prefixes:
            return None
        tensors = tuple(tensor for prefix in prefixes for tensor in _watched(prefix))
        folds = [(rows, None if prefix is None else fold(prefix, scale, query)) for rows, prefix in groups]
        possible = all(
            (fold is None) == (prefix is None) for (_, fold), (_, prefix) in zip(folds, groups, strict=True)
        )
        return cls(together(folds) if possible else None, tensors, sum(map(_version_of, tensors)))

    def serves(self, call: AttentionCall) -> bool:
        """Whether this is the next query of the text it was made for, and no tensor was written to since.

        Asked of every layer for every token, so only what may differ from one token to the next is looked at.
        """
        if call.q.shape[2] != 1 or call.k.shape[2] == 1 or call.dropout:
            return False
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        return sum(map(_version_of, self.tensors)) == self.versions  # versions only grow


def _watched(prefix: Prefix) -> tuple[Tensor, ...]:
    """The tensors of a prefix that may be written to."""
    tensors = tuple(prefix.state_dict(keep_vars=True).values()) if isinstance(prefix, nn.Module) else ()
    return tuple(tensor for tensor in tensors if not tensor.is_inference())


def fold(prefix: Prefix, scale: float, query: Tensor) -> Alone | None:
    """The prefix alone for queries of the same heads and type, with everything folded into its weights.

    None for maps that have no such form, and where a head has no mass or values without mass.
    """
    dtype, heads = torch.promote_types(query.dtype, torch.float32), query.shape[1]
    if isinstance(prefix, Ragged):
        return fold_ragged(prefix, query_gain(scale, query.shape[-1]), heads, dtype)
    features, (Z, masses) = prefix.features, (weight.detach().to(dtype) for weight in prefix.weights())
    masses = masses.abs() if features.positive else masses
    gain, dim = query_gain(scale, features.dim), features.dim
    if isinstance(features, Elu):
        return fold_elu(Z, masses, gain, heads)
    mean, size, level = Z.new_zeros(1, dim), Z.new_ones(1), Z.new_zeros(1)
    if isinstance(features, Calibrated):
        mean, size, level, features = features.mean, features.scale, features.level, features.inner
    given = Inputs(mean.to(Z), size.to(Z), level.to(Z), gain, heads)
    if isinstance(features, Anchors) and features.softcap is None:
        return fold_anchors(features.acting_keys(Z.dtype).to(Z), Z, masses, given)
    if isinstance(features, Learned) and features.activation == "gelu":
        weights = features.acting_weight(Z.dtype).to(Z), features.bias.to(Z)
        return fold_learned(*weights, Z, masses, given)
    return None
