import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention.masks import resolve_mask
from tests.attention.cases import normal, tokens


def test_no_mask_and_one_query_need_nothing():
    q, k, _ = tokens(1, 1, 1, 1, 6, 3)
    for causal in (False, True):
        resolved = resolve_mask(None, causal, q, k)
        assert (resolved.bias, resolved.causal, resolved.empty) == (None, False, None)


def test_square_causal_is_left_to_the_kernel():
    q, k, _ = tokens(1, 1, 1, 6, 6, 3)
    resolved = resolve_mask(None, True, q, k)
    assert (resolved.bias, resolved.causal, resolved.empty) == (None, True, None)


def test_last_query_is_aligned_with_the_last_key():
    q, k, _ = tokens(1, 1, 1, 2, 5, 3)
    resolved = resolve_mask(None, True, q, k)
    assert resolved.bias is not None
    assert (resolved.bias[0, 0] == 0).tolist() == [[True] * 4 + [False], [True] * 5]


def test_more_queries_than_keys_leave_the_first_ones_empty():
    q, k, _ = tokens(1, 1, 1, 5, 2, 3)
    resolved = resolve_mask(None, True, q, k)
    assert resolved.empty is not None
    assert resolved.empty.flatten().tolist() == [True, True, True, False, False]


def test_boolean_and_additive_masks_combine_with_causal_order():
    q, k, _ = tokens(1, 2, 2, 3, 3, 3)
    allowed = torch.tensor([[False, True, True], [True, True, True], [True, False, True]])
    for mask in (allowed, torch.zeros(3, 3, dtype=torch.float64).masked_fill(~allowed, -torch.inf)):
        resolved = resolve_mask(mask, True, q, k)
        assert resolved.bias is not None
        assert resolved.empty is not None
        seen = [[False, False, False], [True, True, False], [True, False, True]]
        assert (resolved.bias[0, 0] == 0).tolist() == seen
        assert resolved.empty.flatten().tolist() == [True, False, False]


def test_additive_mask_takes_the_dtype_of_the_queries():
    q, k, _ = tokens(1, 1, 1, 3, 3, 3, dtype=torch.float32)
    assert resolve_mask(normal(3, 3), False, q, k).bias.dtype == torch.float32


def test_no_keys_at_all_leave_every_row_empty():
    q, k, _ = tokens(1, 1, 1, 3, 0, 3)
    assert resolve_mask(None, True, q, k).empty.flatten().tolist() == [True] * 3


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4), (3, 1, 3, 4), (1, 1, 1, 3, 4)])
def test_shapes_that_do_not_broadcast_are_refused(shape):
    q, k, _ = tokens(2, 4, 4, 3, 5, 3)
    if shape == (3, 5):
        resolve_mask(torch.ones(shape, dtype=torch.bool), False, q, k)
        return
    with pytest.raises(AttangentError, match="broadcasts"):
        resolve_mask(torch.ones(shape, dtype=torch.bool), False, q, k)


def test_masks_of_numbers_are_refused():
    q, k, _ = tokens(2, 4, 4, 3, 5, 3)
    with pytest.raises(AttangentError, match="mask is int64"):
        resolve_mask(torch.ones(3, 5, dtype=torch.long), False, q, k)
