"""Put a compressed prompt into a slot file of llama.cpp, using one that the engine wrote as template.

The header of slot files changes between releases, so it is neither read nor written here. After it come the
keys of all layers, then the values. Keys: type (32 bits), bytes per token (64 bits), a row per token. Values:
the same, or transposed: type, bytes per number and numbers per token (32 bits each), a row per number.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer

Array = np.ndarray[Any, np.dtype[Any]]
_BLOCK = 32
# Least correlation of the template with the model in the first layer; 4-bit weights give 0.99.
# Rounded weights make later layers drift, and sections that are mixed up give about 0.
_SAME = 0.9
_ALIKE = 0.5


@dataclass(frozen=True)
class NumberFormat:
    """A number format of ggml.

    Attributes:
        row_bytes: Bytes of a row of this many numbers.
        encode: Turns rows of float32 into bytes (rows, row_bytes).
        decode: The inverse.
    """

    row_bytes: Callable[[int], int]
    encode: Callable[[Array], Array]
    decode: Callable[[Array], Array]


def _plain_format(dtype: str) -> NumberFormat:
    width = np.dtype(dtype).itemsize
    return NumberFormat(
        lambda count: count * width,
        lambda rows: np.ascontiguousarray(rows.astype(dtype)).view(np.uint8),
        lambda raw: np.ascontiguousarray(raw).view(dtype).astype(np.float32),
    )


def _encode_q8(rows: Array) -> Array:
    """Encode blocks of 32 numbers as a 16-bit scale and 8-bit integers."""
    blocks = rows.reshape(len(rows), -1, _BLOCK)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / 127
    units = np.rint(blocks / np.where(scale == 0, 1, scale)).astype(np.int8)
    parts = [scale.astype("<f2").view(np.uint8), units.view(np.uint8)]
    return np.concatenate(parts, axis=2).reshape(len(rows), -1)


def _decode_q8(raw: Array) -> Array:
    blocks = raw.reshape(len(raw), -1, 2 + _BLOCK)
    scale = np.ascontiguousarray(blocks[:, :, :2]).view("<f2").astype(np.float32)
    units = np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8)
    return (scale * units).reshape(len(raw), -1)


_FORMATS = {
    0: _plain_format("<f4"),
    1: _plain_format("<f2"),
    8: NumberFormat(lambda count: count // _BLOCK * (2 + _BLOCK), _encode_q8, _decode_q8),
}


@dataclass(frozen=True)
class Section:
    """The numbers of one layer's keys or values in a slot file.

    Attributes:
        start: Offset of the first number.
        rows: Number of rows.
        width: Numbers per row.
        number_format: Format of the numbers.
        transposed: Whether a row holds one number of all tokens instead of one token.
    """

    start: int
    rows: int
    width: int
    number_format: NumberFormat
    transposed: bool = False

    @property
    def row_bytes(self) -> int:
        """Return the bytes per row."""
        return self.number_format.row_bytes(self.width)

    @property
    def end(self) -> int:
        """Return the offset after the last number."""
        return self.start + self.rows * self.row_bytes

    def read(self, content: bytes) -> Array:
        """Return the numbers (tokens, heads * d)."""
        raw = np.frombuffer(content, np.uint8)[self.start : self.end].reshape(self.rows, -1)
        numbers = self.number_format.decode(raw)
        return numbers.T if self.transposed else numbers

    def write(self, content: bytearray, numbers: Array) -> None:
        """Replace the numbers (tokens, heads * d)."""
        rows = numbers.T if self.transposed else numbers
        content[self.start : self.end] = self.number_format.encode(np.ascontiguousarray(rows)).tobytes()


def fill_slot(template: bytes, prefix: EnginePrefix, reference: Sequence[Layer]) -> bytes:
    """Replace the keys and values in a slot file.

    Args:
        template: Slot file that the engine saved after reading the prefix's marker.
        prefix: The prefix.
        reference: Keys and values (size, heads, d) of the marker's tokens, computed by transformers. They
            show in which order the engine stores a key, and that it runs the same model.

    Returns:
        The content of the new slot file.

    Raises:
        AttangentError: If the file's layout is unknown or it was written with another model.
    """
    keys, values = find_sections(template, prefix)
    order = _order(keys[0].read(template), reference[0].keys)
    content = bytearray(template)
    for index, layer in enumerate(prefix.layers):
        least = _ALIKE if index else _SAME
        _check_same(keys[index].read(template), _flat(order(reference[index].keys)), least)
        _check_same(values[index].read(template), _flat(reference[index].values), least)
        keys[index].write(content, _flat(order(layer.keys)))
        values[index].write(content, _flat(layer.values))
    return bytes(content)


def find_sections(content: bytes, prefix: EnginePrefix) -> tuple[list[Section], list[Section]]:
    """Return the sections of a slot file that hold the keys and the values of all layers.

    Raises:
        AttangentError: If there is not exactly one place at which the layout fits.
    """
    widths = [layer.keys[0].numel() for layer in prefix.layers]
    value_widths = [layer.values[0].numel() for layer in prefix.layers]
    layouts = []
    for start in _headers(content, widths[0]):
        keys = _sections(content, start, widths, prefix.size)
        for values_of in (_sections, _transposed_sections):
            values = keys and values_of(content, keys[-1].end, value_widths, prefix.size)
            if values and values[-1].end <= len(content):
                layouts.append((keys, values))
    if len(layouts) != 1:
        raise AttangentError(
            "this llama.cpp writes slot files in a layout that is not known, or stores keys in a type other "
            "than f32, f16 and q8_0; use another build or other cache types"
        )
    return layouts[0]


def _headers(content: bytes, width: int) -> Iterator[int]:
    """Yield every offset at which a section with rows of this width may begin."""
    for kind, number_format in _FORMATS.items():
        header = struct.pack("<iQ", kind, number_format.row_bytes(width))
        start = content.find(header)
        while start >= 0:
            yield start
            start = content.find(header, start + 1)


def _sections(content: bytes, start: int, widths: Sequence[int], size: int) -> list[Section]:
    """Return one section per layer with a row per token; none if the layout does not fit."""
    sections = []
    for width in widths:
        if start + 12 > len(content):
            return []
        kind, row_bytes = struct.unpack_from("<iQ", content, start)
        if kind not in _FORMATS or _FORMATS[kind].row_bytes(width) != row_bytes:
            return []
        sections.append(Section(start + 12, size, width, _FORMATS[kind]))
        start = sections[-1].end
    return sections


def _transposed_sections(content: bytes, start: int, widths: Sequence[int], size: int) -> list[Section]:
    """Return one section per layer with a row per number; none if the layout does not fit."""
    sections = []
    for width in widths:
        if start + 12 > len(content):
            return []
        kind, item_bytes, count = struct.unpack_from("<iII", content, start)
        if kind not in (0, 1) or _FORMATS[kind].row_bytes(1) != item_bytes or count != width:
            return []
        sections.append(Section(start + 12, width, size, _FORMATS[kind], transposed=True))
        start = sections[-1].end
    return sections


def _order(stored: Array, keys: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the order of a key's numbers under which the reference is most like the stored keys."""
    orders = (lambda tensor: tensor, interleaved)
    return max(orders, key=lambda order: _correlation(stored, _flat(order(keys))))


def interleaved(keys: Tensor) -> Tensor:
    """Return keys (size, heads, d) with the numbers of their halves alternating.

    GGUF files of Llama-like models store the weights of keys so, because ggml rotates neighbours.
    """
    first, second = keys.chunk(2, dim=-1)
    return torch.stack([first, second], dim=-1).flatten(-2)


def _flat(tensor: Tensor) -> Array:
    return tensor.detach().float().flatten(1).numpy()


def _correlation(one: Array, other: Array) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def _check_same(stored: Array, reference: Array, least: float) -> None:
    if not _correlation(stored, reference) > least:
        raise AttangentError(
            "the server's keys and values differ from the model's: it runs another model; start it with the "
            "GGUF file of the model for which the prompt was compressed, and for 8-bit caches with "
            "LLAMA_ATTN_ROT_DISABLE=1"
        )
