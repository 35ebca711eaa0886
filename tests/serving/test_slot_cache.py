"""Rows of different lengths in one cache are the rows that they were alone."""

import pytest
import torch

from attangent.serving.slot_cache import PromptReuse, SlotCache

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


IDS = list(range(40))


def layers(length):
    values = torch.arange(length, dtype=torch.float32).view(1, 1, length, 1)
    return [(values, -values)]


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        ([*IDS, 99], 40),
        (IDS, 39),  # the last token must be read
        ([*IDS[:20], 99, *IDS[21:]], 20),
        (IDS[:18], 17),
        (IDS[:16], 0),  # too short to be worth it
        ([99, *IDS], 0),
    ],
)
def test_the_longest_common_beginning_is_found(ids, length):
    reuse = PromptReuse(1000)
    reuse.keep("red", IDS, layers(40))
    found, parts = reuse.find("red", ids)
    assert found == length
    assert [part[0].shape[2] for part in parts] == [length] * bool(length)
    assert reuse.find(None, ids) == (0, [])


def test_the_least_recently_used_goes_first():
    reuse = PromptReuse(2 * 40 * 8)
    for name in ("a", "b"):
        reuse.keep(name, IDS, layers(40))
    reuse.find("a", [*IDS, 1])
    reuse.keep("c", IDS, layers(40))
    assert [name for name in "abc" if reuse.find(name, [*IDS, 1])[0]] == ["a", "c"]
    assert reuse.number_of_bytes == 2 * 40 * 8
    reuse.forget("a")
    assert reuse.number_of_bytes == 40 * 8
    reuse.keep("d", range(200), layers(200))
    assert reuse.find("d", range(200)) == (0, [])


def test_another_question_on_the_same_text_replaces_the_first():
    reuse = PromptReuse(10_000)
    reuse.keep("a", [*IDS, 1, 2], layers(42))
    reuse.keep("a", [*IDS, 3], layers(41))
    assert reuse.number_of_bytes == 41 * 8
    reuse.keep("a", [*IDS[:20], *range(100, 120)], layers(40))
    assert reuse.number_of_bytes == (41 + 40) * 8
