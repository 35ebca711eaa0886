"""Keys and values of recent prompts: a later prompt that begins alike starts from them."""

from collections import OrderedDict
from collections.abc import Sequence

import torch

from attangent.serving.slot_cache import KeyValue

_SHORTEST = 16
"""Copying fewer tokens than this saves nothing."""
# A prompt that has this fraction of an earlier one replaces it.
_ALIKE = 0.9
_Key = tuple[str | None, tuple[int, ...]]


class PromptReuse:
    """The most recently used prompts within a number of bytes.

    Args:
        most_bytes: Maximum memory; 0 keeps nothing.
    """

    def __init__(self, most_bytes: int):
        self.most_bytes = most_bytes
        self.number_of_bytes = 0
        self._entries: OrderedDict[_Key, list[KeyValue]] = OrderedDict()

    def find(self, adapter: str | None, ids: Sequence[int]) -> tuple[int, list[KeyValue]]:
        """Return how many leading tokens of `ids` are known, fewer than all, and their keys and values."""
        best: _Key | None = None
        longest = _SHORTEST - 1
        for key in self._entries:
            length = 0 if key[0] != adapter else _common(key[1], ids)
            if length > longest:
                best = key
                longest = length
        if best is None:
            return 0, []
        self._entries.move_to_end(best)
        return longest, [(k[:, :, :longest], v[:, :, :longest]) for k, v in self._entries[best]]

    def keep(self, adapter: str | None, ids: Sequence[int], layers: list[KeyValue]) -> None:
        """Keep the keys and values of a prompt, and drop the least recently used beyond the limit.

        A prompt replaces one that it continues or that differs only in its last part, such as the question.
        """
        key = (adapter, tuple(ids))
        size = _bytes(layers)
        if size > self.most_bytes or len(ids) < _SHORTEST or key in self._entries:
            return
        for other in [other for other in self._entries if other[0] == adapter]:
            if _common(other[1], ids) >= _ALIKE * len(other[1]):
                self._drop(other)
        self._entries[key] = layers
        self.number_of_bytes += size
        while self.number_of_bytes > self.most_bytes:
            self._drop(next(iter(self._entries)))

    def forget(self, adapter: str | None) -> None:
        """Drop the prompts of an adapter."""
        for key in [key for key in self._entries if key[0] == adapter]:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        self.number_of_bytes -= _bytes(self._entries.pop(key))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common beginning, short of all of `other`: its last token must be read."""
    length = min(len(one), len(other) - 1)
    different = torch.tensor(one[:length]) != torch.tensor(other[:length])
    return int(different.int().argmax()) if bool(different.any()) else length


def _bytes(layers: list[KeyValue]) -> int:
    return sum(tensor.numel() * tensor.element_size() for pair in layers for tensor in pair)
