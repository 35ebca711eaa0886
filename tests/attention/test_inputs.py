"""The quick check and the explaining ones say the same."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, RaggedState, merge_prefix, ntk_attention, prefix_attention
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
from attangent.attention.features import Elu, Learned, Taylor

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


WRONG = [
    None,
    3,
    "x",
    [1],
    np.zeros((1, 2, 3, 4)),
    torch.zeros(1, 2, 3, 4, device="meta"),
    {},
    object(),
    10**400,
]


def _entries():
    """Every entry with good arguments, of which one at a time is replaced."""
    q, keys = torch.randn(1, 2, 3, 4), torch.randn(2, 5, 4)
    state, heads = PrefixState.zero(Elu(4), 2), [keys[0], keys[1]]
    return {
        "ntk_attention": (ntk_attention, [q, q, q, state]),
        "prefix_attention": (prefix_attention, [q, q, q, keys, keys]),
        "merge_prefix": (merge_prefix, [q, q, q[..., 0], state]),
        "PrefixState": (PrefixState, [Elu(4), torch.zeros(2, 4, 4), torch.zeros(2, 4)]),
        "zero": (PrefixState.zero, [Elu(4)]),
        "from_prefix": (PrefixState.from_prefix, [Elu(4), keys, keys]),
        "fit": (PrefixState.fit, [Elu(4), keys, keys, keys]),
        "ragged": (RaggedState.of, [heads, heads, [torch.ones(5), torch.ones(5)]]),
        "load": (PrefixState.load, ["/no/such/file"]),
        "for_tolerance": (Taylor.for_tolerance, [4, 0.5, 1e-2]),
        "draw": (Learned.draw, [4, 6]),
    }


REST = {"merge_prefix": [0.5], "zero": [2], "draw": [0]}


@pytest.mark.parametrize("name", list(_entries()))
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_things_of_another_kind_are_refused(name, wrong):
    function, given = _entries()[name]
    for place in range(len(given)):
        arguments = [*given[:place], wrong, *given[place + 1 :], *REST.get(name, [])]
        if name in ("for_tolerance", "draw") and type(wrong) is int and wrong == 3:
            continue  # a size, a bound
        with pytest.raises(AttangentError):
            function(*arguments)
