"""Rows of different lengths in one cache are the rows that they were alone."""

import torch

from attangent.serving.slot_cache import SlotCache

LAYERS, HEADS, SIZE = 2, 2, 3


def drawn(length, seed):
    draw = torch.Generator().manual_seed(seed)
    shape = 1, HEADS, length, SIZE
    return [(torch.randn(shape, generator=draw), torch.randn(shape, generator=draw)) for _ in range(LAYERS)]


def grown(rows, token):
    """The reference: each row alone, with one more token."""
    return [[(torch.cat([k, token], 2), torch.cat([v, -token], 2)) for k, v in layers] for layers in rows]


def assert_holds(cache, rows, parts):
    for layer, (keys, values) in enumerate(parts):
        for row, layers in enumerate(rows):
            length = layers[layer][0].shape[2]
            assert torch.equal(keys[row, :, :length], layers[layer][0][0])
            assert torch.equal(values[row, :, :length], layers[layer][1][0])
            seen = cache.mask(None, torch.float32)[row, 0, 0].isfinite()
            assert seen.sum() == length
            assert seen[:length].all()


def test_rows_join_grow_and_leave():
    cache = SlotCache()
    rows = [drawn(length, length) for length in (5, 2, 70)]
    for layers in rows:
        cache.add(layers)
    for step in range(3):
        token = torch.full((1, HEADS, 1, SIZE), float(step))
        cache.prepare()
        rows = grown(rows, token)
        tokens = token.expand(len(rows), -1, -1, -1)
        assert_holds(cache, rows, [cache.update(tokens, -tokens, layer) for layer in range(LAYERS)])
        cache.advance()
        if step == 1:
            assert cache.remove(0) == 2
            rows = [rows[2], rows[1]]
            cache.add(drawn(9, 9))
            rows.append(drawn(9, 9))
    assert cache.lengths.tolist() == [73, 5, 10]
    assert cache.bytes_per_token() == 2 * LAYERS * HEADS * SIZE * 4


def test_a_window_hides_what_is_older():
    cache = SlotCache()
    for length in (3, 6):
        cache.add(drawn(length, 0))
    seen = cache.mask(4, torch.float32)[:, 0, 0].isfinite().int()
    assert seen.tolist() == [[1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]]


def test_the_last_row_frees_the_memory():
    cache = SlotCache()
    cache.add(drawn(3, 0))
    assert cache.number_of_bytes > 0
    cache.remove(0)
    assert cache.number_of_bytes == cache.rows == cache.get_seq_length() == 0
