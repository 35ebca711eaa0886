import pytest
import torch

from attangent.attention import PrefixState, RaggedState
from attangent.attention.backends.decode.fold import fold
from attangent.attention.backends.decode.rows import together
from attangent.attention.features import Anchors
from tests.attention.cases import normal

pytestmark = pytest.mark.usefixtures("merging")


def folded(seed, q, sizes=None):
    keys = normal(2, 5, 4, seed=seed, dtype=torch.float32)
    if sizes is None:
        state = PrefixState.from_prefix(Anchors(keys), keys, keys)
    else:
        own = [normal(size, 4, seed=seed, dtype=torch.float32) for size in sizes]
        state = RaggedState.of(own, own, [torch.ones(size) for size in sizes])
    return fold(state, 0.5, q)


@pytest.mark.parametrize("length", [1, 3])
@torch.no_grad()
def test_every_row_is_merged_with_its_own_prefix(length):
    q, out = (normal(4, 4, length, 4, seed=seed, dtype=torch.float32) for seed in (1, 2))
    lse = normal(4, 4, length, seed=3, dtype=torch.float32)
    one, two = folded(4, q), folded(5, q, (2, 30))
    found = together([([0, 3], one), ([1], None), ([2], two)]).merged(out.clone(), lse, q)
    for row, alone in enumerate([one, None, two, one]):
        at = slice(row, row + 1)
        wanted = out[at] if alone is None else alone.merged(out[at].clone(), lse[at].clone(), q[at].clone())
        torch.testing.assert_close(found[at], wanted)
    assert torch.equal(found[1], out[1])
