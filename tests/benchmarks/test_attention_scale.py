"""What is counted, and that every part can be measured on a small shape."""

import pytest

from benchmarks.suites.attention.scale import LLAMA_70B, Line, Shape, measure, once, table
from benchmarks.suites.attention.scale_cluster import audit_seconds, predicted


def test_counts_are_those_of_the_published_model():
    assert LLAMA_70B.layers * LLAMA_70B.layer_weights == pytest.approx(68.5e9, rel=0.01)  # without embeddings
    assert LLAMA_70B.cache_bytes(1) == 327_680
    assert LLAMA_70B.state_bytes(1) == 80 * 8 * 257 * 2
    assert LLAMA_70B.attention_flops(2) == 80 * 64 * 2 * 128 * (2 * 2)  # half of q.k and p.v


def test_a_line_goes_through_its_two_ends():
    line = Line.through([10, 30], [1.0, 2.0])
    assert (line.at(10), line.at(30), line.at(50)) == pytest.approx((1.0, 2.0, 3.0))


def test_every_part_is_measured_and_told():
    small = Shape(layers=2, hidden=64, heads=4, kv_heads=2, head=16, inner=128)
    seen = measure(small, part=8, rounds=2)
    assert seen.token.slope > 0
    assert seen.weights > 0
    assert seen.attention_rate > 1e6
    assert seen.linear_rate > 1e6
    assert seen.fit.at(4096) > 0
    lines = table(small, seen, 1000, (128,))
    assert lines[2].startswith("| 1,000 tokens | 0.000256 GB |")
    assert len(once(small, seen, 1000)) == 5


def test_what_is_sent_does_not_become_less_with_more_workers():
    assert predicted(4.0, 5.0, (1, 2, 4)) == [5.0, 3.0, 2.0]


def test_an_audit_takes_as_long_as_its_longest_claim():
    tasks = [6.0, 3.0, 2.0, 1.0]
    assert [audit_seconds(tasks, n) for n in (1, 2, 4, 9)] == [12.0, 6.0, 6.0, 6.0]
