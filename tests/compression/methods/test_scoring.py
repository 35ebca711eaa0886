"""Which tokens are kept."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.methods.scoring import best_of_each_head, best_tokens


@given(seed=st.integers(0, 50), size=st.integers(5, 30))
def test_the_total_is_kept_and_the_first_tokens_always(seed, size):
    draw = torch.Generator().manual_seed(seed)
    scores = {name: torch.rand(2, 20, generator=draw) for name in "abc"}
    kept = best_tokens(scores, size)
    heads = [places for layer in kept.values() for places in layer]
    assert sum(map(len, heads)) == min(size, 20) * 6
    worst = min(scores[n][h, p].item() for n in kept for h, row in enumerate(kept[n]) for p in row[4:])
    for name, layer in kept.items():
        for head, places in enumerate(layer):
            assert places[:4].tolist() == [0, 1, 2, 3]
            assert places.tolist() == sorted(set(places.tolist()))
            left = torch.ones(20, dtype=torch.bool)
            left[places] = False
            assert (scores[name][head][left] <= worst).all()


@given(seed=st.integers(0, 50), size=st.integers(5, 12))
def test_heads_may_have_different_numbers_of_tokens(seed, size):
    draw = torch.Generator().manual_seed(seed)
    scores = {"a": [torch.rand(length, generator=draw) for length in (5, 30)], "b": [torch.rand(9)]}
    kept = best_tokens(scores, size)
    assert [len(layer) for layer in kept.values()] == [2, 1]
    assert sum(len(places) for layer in kept.values() for places in layer) == size * 3
    for name, layer in kept.items():
        for own, places in zip(scores[name], layer, strict=True):
            assert places.max() < len(own)
            assert places[:4].tolist() == [0, 1, 2, 3]


def test_each_head_by_itself_keeps_its_own_best_and_the_first_tokens():
    scores = {
        "a": torch.tensor([[0.0, 0, 0, 0, 5, 1, 7, 2], [0, 0, 0, 0, 1, 2, 3, 4.0]]),
        "b": [torch.rand(5)],
    }
    kept = best_of_each_head(scores, 6)
    assert [places.tolist() for places in kept["a"]] == [[0, 1, 2, 3, 4, 6], [0, 1, 2, 3, 6, 7]]
    assert [places.tolist() for places in kept["b"]] == [[0, 1, 2, 3, 4]]
