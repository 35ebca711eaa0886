"""Generation without gradients: the same formula in few operations, since each call costs more than its work.

    out = (1 - share) o + share u,  share = sigmoid(l - lse)

(o, lse) is the attention over the tokens and (u, l) that over the prefix alone: its output
phi(q) Z / phi(q) k and the logarithm of its mass phi(q) k. Units, masses and scales are folded into the
weights once, when a text begins; more than one query, or a first key, begins a text. Compiled code
(`cpu.decoding`) merges single queries if it is installed.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent.attention.backends.cpu import decoding
from attangent.attention.backends.torch.tokens import flash, supports_flash
from attangent.attention.features.base import Affine
from attangent.attention.masks import Mask
from attangent.attention.prefix import Prefix, RaggedTokens, by_state_head, query_gain, similar_heads, stacked
from attangent.attention.shapes import Keys, Outputs, Queries, RowNumbers, StateMass, StateZ, Values

if TYPE_CHECKING:
    from attangent.attention.backends.triton.attention import KernelPrefix

# From queries (B, H, L, d), at least float32, to u (B, H, L, dv) and l (B, H, L, 1) or (1, H, 1, 1).
Attend = Callable[[Tensor], tuple[Tensor, Tensor]]
_NO_MASK = Mask()
_CAUSAL = Mask(causal=True)
# Folds of prefixes, each with what it depends on; rows of a batch change more often than prefixes.
Folds = WeakKeyDictionary[nn.Module, tuple[Any, "PrefixAlone | None"]]
_version_of = Tensor._version.__get__  # pyright: ignore[reportAttributeAccessIssue]


class PrefixAlone(NamedTuple):
    """Attention to the prefix alone.

    Attributes:
        attend: The attention in torch.
        merge: Compiled code that merges it into the attention of single queries; None if there is none.
    """

    attend: Attend
    merge: decoding.Merge | decoding.MergeRows | None

    def merged(self, out: Outputs, lse: RowNumbers, q: Queries) -> Outputs:
        """Merge the prefix with attention over tokens, out and its logsumexp; may overwrite `out`."""
        if self.merge is not None and self.merge(out, lse, q):
            return out
        u, level = self.attend(q.to(lse.dtype))
        share = (level - lse.unsqueeze(-1)).sigmoid_()
        return out.to(lse.dtype).lerp_(u, share).to(q.dtype)


def is_plain(
    q: Queries, k: Keys, v: Values, softcap: float | None, dropout: float, bias: Tensor | None
) -> bool:
    """Return whether `decode` supports a call: no gradient and no unusual option."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if dropout or softcap is not None or bias is not None:
        return False
    return supports_flash(q, k, v) and not torch.is_autocast_enabled("cpu")


def decode(q: Queries, k: Keys, v: Values, mask: Tensor | None, scale: float, alone: PrefixAlone) -> Outputs:
    """Attend with one query per sequence and head, or with all queries of a prompt if there is no mask.

    A query that is being decoded sees at least itself; those of a prompt see themselves and all before them.
    """
    resolved = _NO_MASK if q.shape[2] == 1 else _CAUSAL
    if mask is not None:
        resolved = Mask((torch.where(mask, 0.0, -math.inf) if mask.dtype == torch.bool else mask).to(q.dtype))
    out, lse = flash(q, k, v, resolved, scale)
    return alone.merged(out, lse, q)


class Folded(NamedTuple):
    """A folded prefix, the tensors it was made from, and the sum of their versions at that time.

    Attributes:
        alone: The folded prefix, or the prefixes of all rows for a GPU; None if it cannot be folded.
        tensors: The tensors it was made from.
        versions: Sum of their versions.
        is_nothing: Whether the prefix has neither mass nor values, so the model's own attention is enough.
    """

    alone: "PrefixAlone | KernelPrefix | None"
    tensors: tuple[Tensor, ...]
    versions: int
    is_nothing: bool = False

    @classmethod
    def of(cls, prefix: Prefix, scale: float, query: Queries) -> "Folded":
        """Fold a prefix for queries like `query`."""
        has_weights = isinstance(prefix, RaggedTokens) or any(bool(part.any()) for part in prefix.weights())
        return cls.watching(fold(prefix, scale, query), [prefix])._replace(is_nothing=not has_weights)

    @classmethod
    def of_rows(
        cls,
        groups: Sequence[tuple[Sequence[int], Prefix | None]],
        scale: float,
        query: Queries,
        folds: Folds | None = None,
    ) -> "Folded | None":
        """Fold the prefixes of groups of rows; None if no row has one. `folds` remembers each prefix."""
        prefixes = [prefix for _, prefix in groups]
        if all(prefix is None for prefix in prefixes):
            return None
        alone = [None if prefix is None else _remembered(prefix, scale, query, folds) for prefix in prefixes]
        rows = [of_group for of_group, _ in groups]
        possible = alone.count(None) == prefixes.count(None)
        return cls.watching(together(list(zip(rows, alone, strict=True))) if possible else None, prefixes)

    @classmethod
    def watching(
        cls, alone: "PrefixAlone | KernelPrefix | None", prefixes: Sequence[Prefix | None]
    ) -> "Folded":
        """Return a fold of these prefixes, which serves until one of them is written to."""
        distinct = {id(prefix): prefix for prefix in prefixes if prefix is not None}
        tensors = tuple(tensor for prefix in distinct.values() for tensor in _watched(prefix))
        return cls(alone, tensors, sum(map(_version_of, tensors)))

    def serves(self, q: Queries, k: Keys, dropout: float) -> bool:
        """Return whether this is the next query of the same text, and no tensor was written to since.

        Every layer asks for every token, so this checks only what may change from one token to the next.
        """
        if q.shape[2] != 1 or k.shape[2] == 1 or dropout:
            return False
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        return sum(map(_version_of, self.tensors)) == self.versions  # versions only grow


def _watched(prefix: Prefix) -> tuple[Tensor, ...]:
    """Return the tensors of a prefix that may be written to."""
    tensors = tuple(prefix.state_dict(keep_vars=True).values()) if isinstance(prefix, nn.Module) else ()
    return tuple(tensor for tensor in tensors if not tensor.is_inference())


def _remembered(prefix: Prefix, scale: float, query: Queries, folds: Folds | None) -> PrefixAlone | None:
    """Fold a prefix, or return its fold if neither its tensors nor the kind of query has changed."""
    if folds is None or not isinstance(prefix, nn.Module):
        return fold(prefix, scale, query)
    about = sum(map(_version_of, _watched(prefix))), scale, query.shape[1], query.dtype, query.device
    known = folds.get(prefix)
    if known is None or known[0] != about:
        known = folds[prefix] = about, fold(prefix, scale, query)
    return known[1]


def fold(prefix: Prefix, scale: float, query: Queries) -> PrefixAlone | None:
    """Fold everything into the weights of the prefix, for queries of the same heads and type.

    None for maps that have no such form, and if a head has no mass or a value without mass.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    heads = query.shape[1]
    gain = query_gain(scale, query.shape[-1])
    if isinstance(prefix, RaggedTokens):
        return fold_ragged(prefix, gain, heads, dtype)
    features = prefix.features
    Z, masses = (weight.detach().to(dtype) for weight in prefix.weights())
    masses = masses.abs() if features.positive else masses
    affine = features.affine(dtype)
    if affine is None:
        return None
    if affine.kind == "elu":
        return _fold_elu(Z, masses, gain, heads)
    if affine.kind == "exponential":
        return _fold_anchors(affine, Z, masses, gain, heads)
    return _fold_learned(affine, Z, masses, gain, heads) if affine.kind == "learned-gelu" else None


def _fold_elu(Z: StateZ, masses: StateMass, gain: float, heads: int) -> PrefixAlone | None:
    """Fold u = phi Z / phi k and l = log(phi k) with phi = elu(factor q) + 1; None if a head has no mass."""
    if bool((masses == 0).all(dim=1).any()):
        return None
    factor = gain * Z.shape[1] ** -0.25
    column = masses.unsqueeze(-1)
    least = torch.finfo(Z.dtype).tiny

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        phi = F.elu(by_state_head(x, len(Z)) * factor) + 1
        mass = phi @ column
        u = phi @ Z / mass.clamp(min=least)
        return u.reshape(*x.shape[:3], -1), mass.log().reshape(*x.shape[:3], 1)

    return PrefixAlone(attend, decoding.merge_elu(Z, masses, factor, heads))


def _fold_learned(
    affine: Affine, Z: StateZ, masses: StateMass, gain: float, heads: int
) -> PrefixAlone | None:
    """Fold u = (Z_0 + gelu(y) Z_1) / k_0 and l = log k_0; None if more than the constant has mass."""
    if bool((masses[:, 0] <= 0).any()) or bool((masses[:, 1:] != 0).any()):
        return None
    # with t = y/sqrt 2, gelu(y) = (t + t erf t)/sqrt 2: the roots move into the weights
    assert affine.weight is not None
    assert affine.bias is not None
    weight = affine.weight.expand(len(Z), -1, -1) * (gain * math.sqrt(0.5))
    bias = affine.bias.expand(len(Z), -1) * math.sqrt(0.5)
    Z = Z / masses[:, :1, None]
    constant = _leveled(affine, masses[:, :1].log()).unsqueeze(2)
    parts = weight.mT, bias.unsqueeze(1), Z[:, :1], Z[:, 1:] * math.sqrt(0.5)
    merge = decoding.merge_learned(*parts, constant, heads)
    sharing = heads // len(Z)
    columns, bias, first, rest = (part.repeat_interleave(sharing, dim=0) for part in parts)
    constant = constant.repeat_interleave(sharing, dim=0).unsqueeze(0)

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        single = len(x) == 1
        rows = x.squeeze(0) if single else x.transpose(0, 1).flatten(1, 2)
        t = torch.baddbmm(bias, rows, columns)
        u = torch.baddbmm(first, t.addcmul_(t, t.erf()), rest)
        return u.unsqueeze(0) if single else u.unflatten(1, (-1, x.shape[2])).transpose(0, 1), constant

    return PrefixAlone(attend, merge)


def _leveled(affine: Affine, logs: Tensor) -> Tensor:
    """Add the level of each head to logarithms of its masses."""
    return logs if affine.level is None else logs + affine.level[:, None]


def _fold_anchors(
    affine: Affine, Z: StateZ, masses: StateMass, gain: float, heads: int
) -> PrefixAlone | None:
    """Fold u = softmax(t) U and l = logsumexp(t) with t = q c + b."""
    if not _have_mass(Z, masses):
        return None
    assert affine.weight is not None
    keys = gain * affine.weight.expand(len(Z), -1, -1)
    bias = _leveled(affine, masses.log())
    if affine.bias is not None:
        bias = bias + affine.bias
    return _fold_tokens(list(keys), list(bias), list(_values(Z, masses)), heads)


def fold_ragged(prefix: RaggedTokens, gain: float, heads: int, dtype: torch.dtype) -> PrefixAlone | None:
    """Fold heads of different sizes; None if the scores are capped."""
    if prefix.softcap is not None:
        return None
    keys, Z, mass = (tensor.detach().to(dtype) for tensor in prefix.tokens())
    mass = mass.abs()
    by_head = zip(Z.split(prefix.sizes), mass.split(prefix.sizes), strict=True)
    if not all(_have_mass(Z_h[None], mass_h[None]) for Z_h, mass_h in by_head):
        return None
    parts = keys * (gain / math.sqrt(keys.shape[-1])), mass.log(), _values(Z, mass)
    scaled, biases, values = (part.split(prefix.sizes) for part in parts)
    return _fold_tokens(scaled, biases, values, heads)


def _have_mass(Z: StateZ, masses: StateMass) -> bool:
    """Return whether every head has mass, and no token has a value without mass."""
    empty = masses == 0
    return not (bool(empty.all(dim=1).any()) or bool((Z[empty] != 0).any()))


def _values(Z: Tensor, masses: Tensor) -> Tensor:
    return Z / torch.where(masses == 0, 1, masses).unsqueeze(-1)


def _fold_tokens(
    keys: Sequence[Tensor], biases: Sequence[Tensor], values: Sequence[Tensor], heads: int
) -> PrefixAlone:
    """Fold the scaled keys c (r, d), biases b (r) and values U (r, dv) of every head.

    Torch attends to heads of similar size together, compiled code to each head at its own size.
    """
    sharing = heads // len(keys)
    groups = similar_heads([len(each) for each in keys])
    attends: list[Attend] = []
    for group in groups:
        k, b, v = ([part[head] for head in group] for part in (keys, biases, values))
        attends.append(_attend_tokens(k, b, v, sharing))
    merge = decoding.merge_anchors([c.mT for c in keys], [b.unsqueeze(0) for b in biases], values, heads)
    if len(groups) == 1:
        return PrefixAlone(attends[0], merge)
    members = [[head * sharing + i for head in group for i in range(sharing)] for group in groups]
    order = [head for group in members for head in group]
    back = sorted(range(len(order)), key=order.__getitem__)

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        results = [of_group(x[:, group]) for of_group, group in zip(attends, members, strict=True)]
        u, level = (torch.cat(each, dim=1)[:, back] for each in zip(*results, strict=True))
        return u, level

    return PrefixAlone(attend, merge)


def _attend_tokens(
    keys: Sequence[Tensor], biases: Sequence[Tensor], values: Sequence[Tensor], sharing: int
) -> Attend:
    """Attend to the tokens of heads of similar size, padded with invisible tokens."""
    k = stacked(keys)
    v = stacked(values)
    bias = stacked(biases, -math.inf).repeat_interleave(sharing, dim=0)
    added = Mask(bias[None, :, None])

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        shape = len(x), -1, -1, -1
        u, lse = flash(x, k.expand(shape), v.expand(shape), added, 1.0)
        return u, lse.unsqueeze(-1)

    return attend


def together(groups: Sequence[tuple[Sequence[int], PrefixAlone | None]]) -> PrefixAlone:
    """Combine the prefixes of groups of rows; None stands for rows without a prefix.

    Compiled code merges each row with its prefix; torch attends group by group.
    """
    owners = {row: alone for rows, alone in groups for row in rows}
    by_row = [owners[row] for row in sorted(owners)]
    compiled = all(alone is None or alone.merge is not None for alone in by_row)
    merges = [alone and alone.merge for alone in by_row]
    merge = decoding.MergeRows(merges) if compiled else None  # type: ignore[arg-type]

    def attend(x: Tensor) -> tuple[Tensor, Tensor]:
        parts = [(list(rows), *alone.attend(x[list(rows)])) for rows, alone in groups if alone is not None]
        levels = x.new_full((*x.shape[:3], 1), -math.inf)
        result = x.new_zeros(*x.shape[:3], parts[0][1].shape[-1])
        for rows, u, level in parts:
            result[rows] = u
            levels[rows] = torch.broadcast_to(level, (*u.shape[:3], 1))
        return result, levels

    return PrefixAlone(attend, merge)
