"""Several prefixes at once: numerators and masses add up."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attangent.attention import Prefix
from attangent.attention.features import FeatureMap
from attangent.attention.prefix import Weights, by_state_head, reflected


def stacked(prefixes: Sequence[Prefix]) -> Weights:
    """One prefix that adds phi_1(q) Z_1 + phi_2(q) Z_2 + ... and likewise the masses.

    Its heads are as many as the most of any; states for each kv head are repeated for their query heads.
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
    return Weights(features, torch.cat([Z.to(dtype) for Z in Zs], 1), torch.cat([k.to(dtype) for k in ks], 1))


class SideBySide(FeatureMap):
    """phi(x) = [phi_1(x), phi_2(x), ...]; `heads` says for how many heads each map has weights.

    A map for fewer heads sees the queries of consecutive heads together.
    """

    name = "side-by-side"

    def __init__(self, maps: Sequence[FeatureMap], heads: Sequence[int]):
        super().__init__(maps[0].dim, sum(part.size for part in maps))
        self.maps, self.heads = tuple(maps), tuple(heads)
        self.positive = all(part.positive for part in maps)

    def trained(self) -> tuple[Tensor, ...]:
        return tuple(tensor for part in self.maps for tensor in part.trained())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self._back(part(y), x) for part, y in self._each(x)], dim=-1)

    def evaluate(self, x: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor | None]:
        parts = [part.evaluate(y, None) for part, y in self._each(x)]
        if all(shift is None for _, shift in parts):
            return torch.cat([self._back(w, x) for w, _ in parts], dim=-1), None
        ws, shifts = self._ws(parts, x), self._shifts(parts, x)
        top = shifts.amax(dim=-1, keepdim=True)
        gains = (shifts - top).exp()
        return torch.cat([w * gains[..., i : i + 1] for i, w in enumerate(ws)], dim=-1), top

    def pullback(self, x: Tensor, w: Tensor, grad_w: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        grads = grad_w.split([part.size for part in self.maps], dim=-1)
        parts = [part.evaluate(y, None) for part, y in self._each(x)]
        if any(shift is not None for _, shift in parts):
            shifts = self._shifts(parts, x)
            gains = (shifts - shifts.amax(dim=-1, keepdim=True)).exp()
            grads = [grad * gains[..., i : i + 1] for i, grad in enumerate(grads)]
        total, of_maps = torch.zeros_like(x), []
        for (part, y), (own, _), grad in zip(self._each(x), parts, grads, strict=True):
            grad_y, of_map = part.pullback(y, own, grad.reshape(own.shape))
            total += grad_y.reshape(x.shape)
            of_maps.extend(of_map)
        return total, tuple(of_maps)

    def _each(self, x: Tensor) -> list[tuple[FeatureMap, Tensor]]:
        """Each map with the queries of its heads."""
        return [(part, by_state_head(x, heads)) for part, heads in zip(self.maps, self.heads, strict=True)]

    def _back(self, w: Tensor, x: Tensor) -> Tensor:
        return w.reshape(*x.shape[:-1], w.shape[-1])

    def _ws(self, parts: Sequence[tuple[Tensor, Tensor | None]], x: Tensor) -> list[Tensor]:
        return [self._back(w, x) for w, _ in parts]

    def _shifts(self, parts: Sequence[tuple[Tensor, Tensor | None]], x: Tensor) -> Tensor:
        """The shift of each map, (B, heads, rows, maps)."""
        zero = x.new_zeros(*x.shape[:-1], 1)
        each = [
            zero if shift is None else shift.expand(*w.shape[:-1], 1).reshape(zero.shape)
            for w, shift in parts
        ]
        return torch.cat(each, dim=-1)
