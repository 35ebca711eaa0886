import pytest
import torch

from attangent import AttangentError
from attangent.attention import RaggedTokens
from attangent.attention.head_parts import joined_heads, split_heads
from tests.attention.cases import normal


def ragged(sizes):
    keys = [normal(size, 4, seed=i) for i, size in enumerate(sizes)]
    return RaggedTokens.of(keys, keys, [torch.ones(size) for size in sizes])


@pytest.mark.parametrize("token_heads", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "sizes", [(3, 90), (90, 3), (3, 90, 3, 200), (5,) * 4, (1, 40, 99, 2, 300, 41, 98, 3)]
)
def test_every_query_head_is_in_one_part_with_its_own_tokens(sizes, token_heads):
    heads = torch.arange(8)[None, :, None]
    tokens = torch.arange(token_heads)[None, :, None]
    parts = split_heads(ragged(sizes), 8, token_heads)
    for part in parts:
        queries, keys = heads[:, part.queries].flatten().tolist(), tokens[:, part.keys].flatten().tolist()
        sharing = len(queries) // len(keys)
        for place, query in enumerate(queries):
            assert keys[place // sharing] == query // (8 // token_heads)
            state_head = query // (8 // len(sizes))
            kept = (part.prefix.mass[place // (len(queries) // len(part.prefix.mass))] != 0).sum().item()
            assert kept == sizes[state_head]
    assert torch.equal(joined_heads([heads[:, part.queries] for part in parts], parts), heads)


def test_masks_of_heads_are_cut_and_others_are_not():
    part = split_heads(ragged((3, 90)), 4, 2)[0]
    per_head = normal(1, 4, 2, 5)
    assert torch.equal(part.masked(per_head), per_head[:, part.queries])
    for mask in (None, normal(2, 5), normal(2, 1, 2, 5)):
        assert part.masked(mask) is mask


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(AttangentError, match="expected a divisor"):
        split_heads(ragged((1, 2, 3)), 4, 2)
    with pytest.raises(AttangentError, match="divides the other"):
        split_heads(ragged((1, 2)), 6, 3)
