"""The order in which examples are trained on."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

from attangent._core.random import generator

_GROUPS_SORTED_AT_ONCE = 32


class SeededOrder(Sampler[int]):
    """Every example once an epoch, ordered by seed and epoch alone: the same for any number of processes.

    lengths: with them, examples of like length stand together in groups of `group`, one step of the
        optimiser each, so that little is padded; the groups come in random order.

    >>> list(SeededOrder(4, seed=0)) == list(SeededOrder(4, seed=0))
    True
    >>> order = list(SeededOrder(4, seed=0, lengths=[9, 1, 1, 9], group=2))
    >>> sorted(order[:2]) in ([0, 3], [1, 2])
    True
    """

    def __init__(self, count: int, seed: int, lengths: Sequence[int] | None = None, group: int = 1):
        self.count, self.seed, self.epoch = count, seed, 0
        self.lengths, self.group = lengths, group

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        draw = generator(self.seed, f"order of epoch {self.epoch}")
        order = torch.randperm(self.count, generator=draw).tolist()
        yield from order if self.lengths is None else self._grouped(order, self.lengths, draw)

    def _grouped(self, order: list[int], lengths: Sequence[int], draw: torch.Generator) -> Iterator[int]:
        block, size = self.group * _GROUPS_SORTED_AT_ONCE, self.group
        order = [
            i
            for start in range(0, len(order), block)
            for i in sorted(order[start : start + block], key=lengths.__getitem__)
        ]
        whole = len(order) // size
        for place in torch.randperm(whole, generator=draw).tolist():
            yield from order[place * size : (place + 1) * size]
        yield from order[whole * size :]
