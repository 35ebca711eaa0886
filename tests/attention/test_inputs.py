"""The quick check and the explaining ones say the same."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent._errors import AttangentError
from attangent.attention._inputs import (
    all_fit,
    autocast_off,
    check_prefix,
    check_scale,
    check_share,
    check_softcap,
    check_state,
    check_tokens,
    compute_dtype,
    describe,
)

sizes = st.lists(st.integers(0, 3), min_size=2, max_size=5)


@settings(max_examples=300, deadline=None)
@given(
    q=st.tuples(*[st.sampled_from([1, 2])] * 4),
    change=st.dictionaries(st.sampled_from(["q", "k", "v", "Z", "mass"]), sizes, max_size=1),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.long]),
    kv_heads=st.sampled_from([1, 2]),
)
def test_quick_check_passes_exactly_what_the_others_pass(q, change, dtype, kv_heads):
    batch, _, _, dim = q
    shapes = {
        "q": q,
        "k": (batch, kv_heads, 3, dim),
        "v": (batch, kv_heads, 3, 2),
        "Z": (1, 5, 2),
        "mass": (1, 5),
    } | {name: tuple(shape) for name, shape in change.items()}
    tensors = {name: torch.zeros(shape) for name, shape in shapes.items()}
    tensors["v"] = tensors["v"].to(dtype)
    q, k, v, Z, mass = tensors.values()
    try:
        check_tokens(q, k, v)
        check_state(q, v, dim, 5, Z, mass)
        explained = True
    except AttangentError:
        explained = False
    assert all_fit(q, k, v, dim, 5, Z, mass) == explained


def test_things_that_are_no_tensors_do_not_fit():
    assert not all_fit(None, None, None, 4, 4, None, None)


@pytest.mark.parametrize(("scale", "dim", "found"), [(None, 16, 0.25), (2, 16, 2.0), (-0.5, 4, -0.5)])
def test_scale_is_one_over_the_root_unless_given(scale, dim, found):
    assert check_scale(scale, dim) == found


@pytest.mark.parametrize("scale", [math.inf, math.nan, "one"])
def test_impossible_scales_are_refused(scale):
    with pytest.raises(AttangentError, match="scale is"):
        check_scale(scale, 4)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan, "half"])
def test_impossible_shares_are_refused(share):
    with pytest.raises(AttangentError, match="dropout is"):
        check_share("dropout", share)


def test_softcap_may_be_missing_but_not_infinite():
    assert check_softcap(None) is None
    assert check_softcap(2.0) == 2.0
    with pytest.raises(AttangentError, match="softcap is inf"):
        check_softcap(math.inf)


def test_prefix_gets_its_head_axis_and_keeps_its_size():
    assert check_prefix("keys", torch.zeros(5, 3)).shape == (1, 5, 3)
    with pytest.raises(AttangentError, match=r"keys has shape \(2, 5, 3\), expected \(4, length, size\)"):
        check_prefix("keys", torch.zeros(2, 5, 3), heads=4)


def test_prefix_is_computed_in_at_least_float32():
    assert [compute_dtype(d) for d in (torch.float16, torch.bfloat16, torch.float32, torch.float64)] == [
        torch.float32,
        torch.float32,
        torch.float32,
        torch.float64,
    ]


def test_autocast_is_suspended_only_where_it_is_on():
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with autocast_off(x):
            assert (x @ x).dtype == torch.float32
    with autocast_off(x):
        assert (x @ x).dtype == torch.float32


def test_description_names_dtype_shape_and_device():
    assert describe(torch.zeros(2, 3)) == "float32 (2, 3) on cpu"
    assert describe([1]) == "list"
