"""The slot in an attention layer: the states of its adapters, and the prefix that acts."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attangent.adapters.call import AttentionCall
from attangent.attention import Prefix
from attangent.attention.backends.torch.decode import Folded, Folds
from attangent.attention.features import FeatureMap
from attangent.attention.prefix import PrefixWeights, by_state_head, reflected

NAME = "attangent_prefix"
"""Attribute of an attention module that holds its slot."""


class RowGroup(NamedTuple):
    """Rows of a batch with the same prefix; None for no prefix."""

    rows: list[int]
    prefix: Prefix | None


class Slot(nn.Module):
    """The prefix states of one attention layer by adapter name."""

    def __init__(self) -> None:
        super().__init__()
        self.states = nn.ModuleDict()
        self.active: tuple[str, ...] = ()
        self.enabled = True
        self.recorder: Callable[[AttentionCall], None] | None = None
        self.rows: tuple[str | None, ...] | None = None
        self.folded: Folded | None = None
        self.folds: Folds = WeakKeyDictionary()

    def current(self) -> Prefix | None:
        """Return the prefix of the active adapters together; None if there is none."""
        if not self.enabled:
            return None
        states: list[Any] = [self.states[name] for name in self.active if name in self.states]
        if not states:
            return None
        return states[0] if len(states) == 1 else stacked(states)

    def row_groups(self) -> list[RowGroup]:
        """Group the rows of the batch by their adapter, inside `batch`."""
        assert self.rows is not None
        groups: dict[str | None, list[int]] = {}
        for row, name in enumerate(self.rows):
            known = name is not None and name in self.states
            groups.setdefault(name if known else None, []).append(row)
        return [
            RowGroup(rows, None if name is None else self.states[name])  # type: ignore[arg-type]
            for name, rows in groups.items()
        ]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the folded weights, which are caches, out of copies."""
        return {**self.__dict__, "folded": None, "folds": WeakKeyDictionary()}

    def extra_repr(self) -> str:
        return f"active={list(self.active)}, enabled={self.enabled}"


def slot_of(module: nn.Module) -> Slot | None:
    """Return the slot of an attention module; None if nothing is attached."""
    return module._modules.get(NAME)  # type: ignore[return-value]


def stacked(prefixes: Sequence[Prefix]) -> PrefixWeights:
    """Return one prefix that adds phi_1(q) Z_1 + phi_2(q) Z_2 + ... and the masses alike.

    It has as many heads as the prefix with the most; states per kv head are repeated for their query heads.
    """
    pairs = [prefix.weights() for prefix in prefixes]
    heads = max(len(Z) for Z, _ in pairs)
    features = SideBySide([prefix.features for prefix in prefixes], [len(Z) for Z, _ in pairs])
    Zs = [Z.repeat_interleave(heads // len(Z), dim=0) for Z, _ in pairs]
    ks = [
        reflected(k) if prefix.features.positive else k
        for prefix, (_, k) in zip(prefixes, pairs, strict=True)
    ]
    ks = [k.repeat_interleave(heads // len(k), dim=0) for k in ks]
    dtype = torch.promote_types(Zs[0].dtype, Zs[-1].dtype)
    Z = torch.cat([Z.to(dtype) for Z in Zs], 1)
    return PrefixWeights(features, Z, torch.cat([k.to(dtype) for k in ks], 1))


class SideBySide(FeatureMap):
    """phi(x) = [phi_1(x), phi_2(x), ...]; `heads` is the number of heads for which each map has weights.

    A map with fewer heads sees the queries of consecutive heads together.
    """

    name = "side-by-side"

    def __init__(self, maps: Sequence[FeatureMap], heads: Sequence[int]):
        super().__init__(maps[0].dim, sum(each.size for each in maps))
        self.maps = tuple(maps)
        self.heads = tuple(heads)
        self.positive = all(each.positive for each in maps)

    def trained(self) -> tuple[Tensor, ...]:
        return tuple(tensor for each in self.maps for tensor in each.trained())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([_like_queries(each(y), x) for each, y in self._inputs(x)], dim=-1)

    def evaluate(self, x: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor | None]:
        results = [each.evaluate(y, None) for each, y in self._inputs(x)]
        weights = [_like_queries(w, x) for w, _ in results]
        if all(shift is None for _, shift in results):
            return torch.cat(weights, dim=-1), None
        # each map has its own shift (w e^shift are its features): bring all to the largest one
        shifts = _shifts(results, x)
        top = shifts.amax(dim=-1, keepdim=True)
        gains = (shifts - top).exp()
        return torch.cat([w * gains[..., i : i + 1] for i, w in enumerate(weights)], dim=-1), top

    def pullback(self, x: Tensor, w: Tensor, grad_w: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        grads = grad_w.split([each.size for each in self.maps], dim=-1)
        results = [each.evaluate(y, None) for each, y in self._inputs(x)]
        if any(shift is not None for _, shift in results):
            shifts = _shifts(results, x)
            gains = (shifts - shifts.amax(dim=-1, keepdim=True)).exp()
            grads = [grad * gains[..., i : i + 1] for i, grad in enumerate(grads)]
        total = torch.zeros_like(x)
        grads_of_maps: list[Tensor] = []
        for (each, y), (weights, _), grad in zip(self._inputs(x), results, grads, strict=True):
            grad_y, grads_of_map = each.pullback(y, weights, grad.reshape(weights.shape))
            total += grad_y.reshape(x.shape)
            grads_of_maps.extend(grads_of_map)
        return total, tuple(grads_of_maps)

    def _inputs(self, x: Tensor) -> list[tuple[FeatureMap, Tensor]]:
        """Return each map with the queries grouped by its heads."""
        return [(each, by_state_head(x, heads)) for each, heads in zip(self.maps, self.heads, strict=True)]


def _like_queries(w: Tensor, x: Tensor) -> Tensor:
    return w.reshape(*x.shape[:-1], w.shape[-1])


def _shifts(results: Sequence[tuple[Tensor, Tensor | None]], x: Tensor) -> Tensor:
    """Return the shift of each map, (B, heads, rows, maps); 0 for maps without one."""
    zero = x.new_zeros(*x.shape[:-1], 1)
    shifts = [
        zero if shift is None else shift.expand(*w.shape[:-1], 1).reshape(zero.shape) for w, shift in results
    ]
    return torch.cat(shifts, dim=-1)
