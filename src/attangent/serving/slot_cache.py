"""Keys and values of the running texts, in slots, and of recent prompts, from which later prompts start."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import Cache

KeyValue = tuple[Tensor, Tensor]
"""Keys and values (1, Hkv, L, d) of one layer."""
_BLOCK = 64
"""The length is rounded up to a multiple of this, so that most steps need no new memory."""


class SlotCache(Cache):
    """Keys and values of rows that are decoded together; row r holds its first `lengths[r]` tokens.

    Row r writes its next token at index lengths[r], and the mask hides everything after it. A new row only
    writes its own slot. When a row leaves, the last one moves into its slot.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.lengths = torch.zeros(0, dtype=torch.long)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.lengths)

    @property
    def width(self) -> int:
        """Number of tokens of the longest row after the next step."""
        return int(self.lengths.max()) + 1

    @property
    def number_of_bytes(self) -> int:
        """Return the memory that the slots take."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (*self.keys, *self.values))

    def bytes_per_token(self) -> int:
        """Return the memory that one token of one row takes."""
        return sum(t.shape[1] * t.shape[3] * t.element_size() for t in (*self.keys, *self.values))

    def add(self, layers: Sequence[KeyValue]) -> None:
        """Add a row with these keys and values."""
        row = self.rows
        length = layers[0][0].shape[2]
        self._reserve(row + 1, max(length, 0 if row == 0 else self.width - 1) + 1, layers)
        for index, (keys, values) in enumerate(layers):
            self.keys[index][row, :, :length] = keys[0]
            self.values[index][row, :, :length] = values[0]
        self.lengths = torch.cat([self.lengths, torch.tensor([length])])

    def remove(self, row: int) -> int:
        """Remove a row and return the index of the row that moved into its slot."""
        last = self.rows - 1
        if row != last:
            length = int(self.lengths[last])
            for tensor in (*self.keys, *self.values):
                tensor[row, :, :length] = tensor[last, :, :length]
            self.lengths[row] = self.lengths[last]
        self.lengths = self.lengths[:last].clone()
        if last == 0:
            self.keys.clear()
            self.values.clear()
        return last

    def prepare(self) -> None:
        """Make room for one more token per row."""
        self._reserve(self.rows, self.width, None)

    def advance(self) -> None:
        """Count the token that every row has written."""
        self.lengths = self.lengths + 1

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one token per row and return the keys and values (B, Hkv, width, d) of all rows."""
        rows = torch.arange(self.rows)
        width = self.width
        parts = []
        for tensor, new in ((self.keys[layer_idx], key_states), (self.values[layer_idx], value_states)):
            tensor[rows, :, self.lengths] = new[:, :, 0]
            parts.append(tensor[: len(rows), :, :width])
        return parts[0], parts[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the length of the longest row."""
        return 0 if self.rows == 0 else self.width - 1

    def mask(self, window: int | None, dtype: torch.dtype) -> Float[Tensor, "rows 1 1 width"]:
        """Return 0 for the tokens that the next query of each row sees, itself included, else -inf."""
        index = torch.arange(self.width)
        last = self.lengths[:, None]
        hidden = index > last
        if window is not None:
            hidden |= index <= last - window
        return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)[:, None, None]

    def _reserve(self, rows: int, length: int, like: Sequence[KeyValue] | None) -> None:
        """Allocate slots for this many rows and tokens; existing rows are copied if they must move."""
        if not self.keys and like is not None:
            self.keys = [pair[0].new_empty(0, pair[0].shape[1], 0, pair[0].shape[3]) for pair in like]
            self.values = [pair[1].new_empty(0, pair[1].shape[1], 0, pair[1].shape[3]) for pair in like]
        held, _, room, _ = self.keys[0].shape
        if rows <= held and length <= room:
            return
        size = max(rows, held), -(-max(length, room) // _BLOCK) * _BLOCK
        for tensors in (self.keys, self.values):
            for index, tensor in enumerate(tensors):
                tensors[index] = _resized(tensor, *size)


def _resized(tensor: Tensor, rows: int, length: int) -> Tensor:
    # zeros, because a hidden NaN in fresh memory would still poison a sum
    larger = tensor.new_zeros(rows, tensor.shape[1], length, tensor.shape[3])
    larger[: tensor.shape[0], :, : tensor.shape[2]] = tensor
    return larger


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
