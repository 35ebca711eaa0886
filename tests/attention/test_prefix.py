import pytest
import torch

from attangent import AttangentError
from attangent.attention import RaggedTokens
from attangent.attention.prefix import joined_heads
from tests.attention.cases import normal


def ragged(sizes):
    keys = [normal(size, 4, seed=i) for i, size in enumerate(sizes)]
    return RaggedTokens.of(keys, keys, [torch.ones(size) for size in sizes])


@pytest.mark.parametrize("token_heads", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "sizes", [(3, 90), (90, 3), (3, 90, 3, 200), (5,) * 4, (1, 40, 99, 2, 300, 41, 98, 3)]
)
def test_every_query_head_is_in_one_group_with_its_own_tokens(sizes, token_heads):
    heads = torch.arange(8)[None, :, None]
    tokens = torch.arange(token_heads)[None, :, None]
    groups = ragged(sizes).groups(8, token_heads)
    for group in groups:
        queries, keys = heads[:, group.queries].flatten().tolist(), tokens[:, group.keys].flatten().tolist()
        sharing = len(queries) // len(keys)
        for place, query in enumerate(queries):
            assert keys[place // sharing] == query // (8 // token_heads)
            state_head = query // (8 // len(sizes))
            kept = (group.prefix.mass[place // (len(queries) // len(group.prefix.mass))] != 0).sum().item()
            assert kept == sizes[state_head]
    assert torch.equal(joined_heads([heads[:, group.queries] for group in groups], groups), heads)


def test_masks_of_heads_are_cut_and_others_are_not():
    group = ragged((3, 90)).groups(4, 2)[0]
    per_head = normal(1, 4, 2, 5)
    assert torch.equal(group.masked(per_head), per_head[:, group.queries])
    for mask in (None, normal(2, 5), normal(2, 1, 2, 5)):
        assert group.masked(mask) is mask


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(AttangentError, match="expected a divisor"):
        ragged((1, 2, 3)).groups(4, 2)
    with pytest.raises(AttangentError, match="divides the other"):
        ragged((1, 2)).groups(6, 3)
