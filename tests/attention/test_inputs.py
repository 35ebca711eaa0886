"""Values and shapes that attention refuses."""

import math

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.attention._inputs import (
    autocast_off,
    check_dropout,
    check_prefix,
    check_scale,
    check_softcap,
    compute_dtype,
    describe,
)


@pytest.mark.parametrize(("scale", "dim", "found"), [(None, 16, 0.25), (2, 16, 2.0), (-0.5, 4, -0.5)])
@pytest.mark.usefixtures("without_hook")
def test_scale_is_one_over_the_root_unless_given(scale, dim, found):
    assert check_scale(scale, dim) == found


@pytest.mark.parametrize("scale", [math.inf, math.nan, "one"])
@pytest.mark.usefixtures("without_hook")
def test_impossible_scales_are_refused(scale):
    with pytest.raises(AttangentError, match="scale is"):
        check_scale(scale, 4)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_impossible_shares_are_refused(share):
    with pytest.raises(AttangentError, match="dropout is"):
        check_dropout(share)


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
