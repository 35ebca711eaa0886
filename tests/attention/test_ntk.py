"""NTK-Attention as a user calls it: every mask, map and shape, against the formula written out."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, ntk_attention, prefix_attention
from attangent.attention.backends.torch.tokens import is_fused
from attangent.attention.masks import resolve_mask
from tests.attention.cases import (
    MAPS,
    MASKS,
    POSITIVE,
    gradients,
    make_mask,
    make_state,
    normal,
    portable,
    tokens,
    written_out,
)

HOOKED = hasattr(ntk_attention, "__wrapped__")
COMPILED = [("elu", "none"), ("elu", "bool-rows"), ("taylor-2", "none"), ("anchors", "none")]


@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("attend", [ntk_attention, portable], ids=["fused", "portable"])
def test_is_the_formula_for_every_mask(attend, kind, causal):
    for rows, columns in ((4, 4), (3, 5), (5, 3), (1, 4)):
        q, k, v = tokens(2, 4, 2, rows, columns, 3)
        state, mask = make_state("elu", 3, 2), make_mask(kind, 2, 4, rows, columns)
        found = attend(q, k, v, state, mask=mask, causal=causal)
        wanted = written_out(q, k, v, state, mask=mask, causal=causal)
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("attend", [ntk_attention, portable], ids=["fused", "portable"])
def test_is_the_formula_for_every_map_and_scale(attend, name):
    q, k, v = tokens(2, 4, 2, 3, 5, 4)
    for state_heads, scale in ((4, None), (2, 0.3), (1, -0.2)):
        state = make_state(name, 4, state_heads)
        found = attend(q, k, v, state, scale=scale)
        torch.testing.assert_close(found, written_out(q, k, v, state, scale=scale), atol=1e-11, rtol=1e-11)


def test_softcap_is_the_formula():
    q, k, v = tokens(2, 4, 2, 3, 5, 4)
    state = make_state("elu", 4, 2)
    found = ntk_attention(q, k, v, state, softcap=0.6, causal=True)
    torch.testing.assert_close(found, written_out(q, k, v, state, softcap=0.6, causal=True))


def test_values_may_have_another_size_than_queries():
    q, k, v = tokens(2, 4, 2, 3, 5, 4, value_dim=6)
    state = make_state("elu", 4, 2, value_dim=6)
    torch.testing.assert_close(ntk_attention(q, k, v, state), written_out(q, k, v, state))


@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("kind", MASKS)
def test_gradients_for_every_mask(kind, causal):
    """gradcheck of the fused path, and of its gradients' gradients through the portable one."""
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 1, 3, 4, 2))
    state, mask = make_state("elu", 2, 1), make_mask(kind, 1, 2, 3, 4)

    def attend(*inputs):
        return ntk_attention(*inputs[:3], state, mask=mask, causal=causal)

    inputs = (q, k, v, *state.parameters())
    assert is_fused(q, k, v, resolve_mask(mask, causal, q, k))
    assert torch.autograd.gradcheck(attend, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, inputs, fast_mode=True)


@pytest.mark.parametrize("name", MAPS)
def test_gradients_for_every_map(name):
    q, k, v = (t.requires_grad_() for t in tokens(2, 2, 2, 3, 3, 2))
    state = make_state(name, 2, 2)
    with torch.no_grad():
        state.mass += 0.1  # away from 0, where |mass| has a kink

    def attend(*inputs):
        return ntk_attention(*inputs[:3], state, causal=True, scale=0.5)

    inputs = (q, k, v, *state.parameters())
    assert torch.autograd.gradcheck(attend, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, inputs, fast_mode=True)


def test_gradient_of_an_additive_mask():
    q, k, v = tokens(1, 2, 2, 3, 4, 2)
    mask, state = normal(2, 3, 4).requires_grad_(), make_state("elu", 2, 2)
    assert torch.autograd.gradcheck(
        lambda mask: ntk_attention(q, k, v, state, mask=mask, causal=True), (mask,)
    )


shapes = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 3),
        "kv_heads": st.integers(1, 3),
        "group": st.integers(1, 3),
        "rows": st.integers(1, 40),
        "columns": st.integers(1, 40),
        "dim": st.integers(1, 12),
        "shared": st.booleans(),
        "swapped": st.booleans(),
        "causal": st.booleans(),
        "kind": st.sampled_from(MASKS),
        "name": st.sampled_from([*POSITIVE, "taylor-2"]),
        "seed": st.integers(0, 10**6),
    }
)


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_all_paths_agree_in_float32(case):
    """Fused and portable to 1e-6 of outputs within +-1, for any shape, layout and mask; gradients to 2e-5."""
    heads = case["kv_heads"] * case["group"]
    q, k, v = tokens(
        case["batch"], heads, case["kv_heads"], case["rows"], case["columns"], case["dim"], case["seed"]
    )
    q, k, v = (t.float() for t in (q, k, v))
    if case["swapped"]:
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    state = make_state(case["name"], case["dim"], heads if case["shared"] else 1, torch.float32, case["seed"])
    mask = make_mask(case["kind"], case["batch"], heads, case["rows"], case["columns"], torch.float32)
    options = {"mask": mask, "causal": case["causal"]}
    fused, plain = ntk_attention(q, k, v, state, **options), portable(q, k, v, state, **options)
    assert (fused - plain).abs().max() <= 1e-6
    inputs = [q, k, v, *state.parameters()]
    for found, wanted in zip(gradients(fused, inputs), gradients(plain, inputs), strict=True):
        assert (found - wanted).abs().max() <= 2e-5 * max(1, wanted.abs().max().item())


def test_no_queries_give_an_empty_answer():
    q, k, v = tokens(1, 2, 2, 0, 4, 4)
    assert ntk_attention(q, k, v, make_state("elu", 4, 2)).shape == (1, 2, 0, 4)


def test_cached_decoding_is_the_causal_pass_row_by_row():
    q, k, v = tokens(2, 4, 2, 7, 7, 4)
    state = make_state("anchors", 4, 2)
    whole = ntk_attention(q, k, v, state, causal=True)
    for step in range(7):
        row = slice(step, step + 1)
        seen = k[:, :, : step + 1], v[:, :, : step + 1]
        torch.testing.assert_close(ntk_attention(q[:, :, row], *seen, state, causal=True), whole[:, :, row])
    torch.testing.assert_close(ntk_attention(q[:, :, 4:], k, v, state, causal=True), whole[:, :, 4:])


@pytest.mark.parametrize("name", ["elu", "learned-elu", "anchors", "taylor-2"])
@pytest.mark.parametrize(("state_heads", "swapped"), [(1, False), (2, True), (4, False)])
def test_long_inputs_are_cut_into_blocks_that_do_not_show(name, state_heads, swapped, monkeypatch):
    q, k, v = tokens(3, 4, 2, 33, 33, 4)
    if swapped:
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    state = make_state(name, 4, state_heads)
    inputs = [q, k, v, *state.parameters()]
    whole = ntk_attention(q, k, v, state, causal=True)
    found = gradients(whole, inputs)
    for block in (1, 300, 2000):
        monkeypatch.setattr("attangent.attention.backends.torch.prefix_side._BLOCK", block)
        cut = ntk_attention(q, k, v, state, causal=True)
        torch.testing.assert_close(cut, whole)
        for one, other in zip(gradients(cut, inputs), found, strict=True):
            torch.testing.assert_close(one, other)


class _Layer(torch.nn.Module):
    def __init__(self, state):
        super().__init__()
        self.state, self.out = state, torch.nn.Linear(4, 4, dtype=torch.float64)

    def forward(self, q, k, v, mask=None):
        return self.out(ntk_attention(q, k, v, self.state, mask=mask, causal=mask is None))


@pytest.mark.parametrize(("name", "kind"), COMPILED)
@pytest.mark.skipif(HOOKED, reason="torch.compile cannot trace the checks of shapes; see the next test")
def test_compiled_module_is_one_graph_with_equal_gradients(name, kind):
    q, k, v = (t.requires_grad_() for t in tokens(1, 2, 2, 5, 5, 4))
    layer, mask = _Layer(make_state(name, 4, 2)), make_mask(kind, 1, 2, 5, 5)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    inputs = [q, k, v, *layer.parameters()]
    plain, fast = layer(q, k, v, mask), compiled(q, k, v, mask)
    torch.testing.assert_close(fast, plain)
    for found, wanted in zip(gradients(fast, inputs), gradients(plain, inputs), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.skipif(not HOOKED, reason="the test above has run here")
def test_compiled_modules_in_a_process_without_the_checks_of_shapes():
    """One process for these and for the compiled models of `tests/adapters/test_interface.py`."""
    code = f"""
from tests.adapters import test_interface as models
from tests.attention import test_ntk as layers
assert not layers.HOOKED
for case in {COMPILED}:
    layers.test_compiled_module_is_one_graph_with_equal_gradients(*case)
models.test_a_compiled_model_answers_the_same()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr


def test_dropout_averages_out_and_repeats_with_its_generator():
    many = [x.expand(2000, -1, -1, -1) for x in tokens(1, 1, 1, 3, 4, 3)]
    state = make_state("elu", 3, 1)
    draws = ntk_attention(*many, state, dropout=0.3, generator=torch.Generator().manual_seed(0))
    standard_error = draws.std(dim=0) / math.sqrt(len(draws))
    wanted = ntk_attention(*[x[:1] for x in many], state)[0]
    assert ((draws.mean(dim=0) - wanted) / standard_error).abs().max() < 4.5
    again = ntk_attention(*many, state, dropout=0.3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again, draws)


def test_taylor_state_follows_exact_prefix_attention():
    q, k, v = tokens(1, 2, 2, 6, 6, 4)
    q = 0.3 * q
    keys, values = normal(2, 50, 4, seed=1, scale=0.3), normal(2, 50, 4, seed=2)
    state = PrefixState.from_prefix(make_state("taylor-3", 4, 2).features, keys, values)
    exact = prefix_attention(q, k, v, keys, values, causal=True)
    assert (ntk_attention(q, k, v, state, causal=True) - exact).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(2, 5, 4)}, r"q is float32 \(2, 5, 4\)"),
        ({"k": normal(1, 2, 5, 4)}, "one dtype"),
        ({"v": torch.zeros(1, 2, 6, 4)}, "do not fit together"),
        ({"k": torch.zeros(1, 3, 5, 4), "v": torch.zeros(1, 3, 5, 4)}, "a divisor of 2"),
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": 1e300}, r"scale is 1e\+300"),
        ({"scale": -1e7}, "scale is -10000000.0"),
        ({"scale": "much"}, "scale is 'much'"),
        ({"softcap": 1e300}, r"softcap is 1e\+300"),
        ({"softcap": 1e-300}, "softcap is 1e-300"),
        ({"softcap": "much"}, "softcap is 'much'"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"softcap": 0.0}, "softcap is 0.0"),
        ({"mask": torch.ones(3, 3, dtype=torch.bool)}, "mask has shape"),
        ({"state": make_state("elu", 5, 2)}, "features of dimension 5"),
        ({"state": make_state("elu", 4, 3)}, "3 heads"),
        ({"state": make_state("elu", 4, 2, value_dim=3)}, "Z"),
    ],
)
@pytest.mark.usefixtures("without_hook")
def test_what_does_not_fit_is_refused(change, message):
    given = {name: torch.zeros(1, 2, 5, 4) for name in ("q", "k", "v")} | {"state": make_state("elu", 4, 2)}
    given |= change
    with pytest.raises(AttangentError, match=message):
        ntk_attention(given.pop("q"), given.pop("k"), given.pop("v"), given.pop("state"), **given)


def by_hand(q, k, v, prefix_k, prefix_v, mask=None, causal=False, softcap=None):
    """Algorithm 1 with plain exponentials: prefix first, every query sees all of it."""
    rows, columns, m = q.shape[2], k.shape[2], prefix_k.shape[-2]
    group = q.shape[1] // k.shape[1]
    K = torch.cat([prefix_k.expand(len(q), -1, -1, -1), k], dim=2).repeat_interleave(group, dim=1)
    V = torch.cat([prefix_v.expand(len(q), -1, -1, -1), v], dim=2).repeat_interleave(group, dim=1)
    logits = q @ K.mT / math.sqrt(q.shape[-1])
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    A = logits.exp()
    if mask is not None:
        factor = mask.double() if mask.dtype == torch.bool else mask.exp()
        A[..., m:] *= factor
    if causal:
        A[..., m:] *= torch.ones(rows, columns, dtype=torch.float64).tril(columns - rows)
    return A @ V / A.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_is_algorithm_1_for_every_mask(kind, causal):
    q, k, v = tokens(2, 4, 2, 5, 6, 3)
    prefix_k, prefix_v = normal(2, 7, 3, seed=5), normal(2, 7, 3, seed=6)
    mask = make_mask(kind, 2, 4, 5, 6)
    found = prefix_attention(q, k, v, prefix_k, prefix_v, mask=mask, causal=causal)
    torch.testing.assert_close(found, by_hand(q, k, v, prefix_k, prefix_v, mask, causal))


def test_square_causal_attention_with_a_prefix_for_each_batch_element():
    q, k, v = tokens(2, 4, 2, 5, 5, 3)
    prefix_k, prefix_v = normal(2, 2, 7, 3, seed=5), normal(2, 2, 7, 3, seed=6)
    found = prefix_attention(q, k, v, prefix_k, prefix_v, causal=True)
    torch.testing.assert_close(found, by_hand(q, k, v, prefix_k, prefix_v, causal=True))


def test_softcap_caps_the_logits():
    q, k, v = tokens(2, 2, 2, 5, 6, 3)
    prefix_k, prefix_v = normal(2, 7, 3, seed=5), normal(2, 7, 3, seed=6)
    found = prefix_attention(q, k, v, prefix_k, prefix_v, softcap=0.5)
    torch.testing.assert_close(found, by_hand(q, k, v, prefix_k, prefix_v, softcap=0.5))


def test_empty_prefix_is_plain_attention():
    q, k, v = tokens(2, 2, 2, 5, 5, 3)
    none = torch.zeros(2, 0, 3, dtype=torch.float64)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(prefix_attention(q, k, v, none, none, causal=True), wanted)


def test_dropout_averages_out_to_attention_without_it():
    q, k, v = tokens(1, 1, 1, 3, 4, 3)
    prefix_k, prefix_v = normal(1, 7, 3, seed=5), normal(1, 7, 3, seed=6)
    rng = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [prefix_attention(q, k, v, prefix_k, prefix_v, dropout=0.3, generator=rng) for _ in range(2000)]
    )
    wanted = prefix_attention(q, k, v, prefix_k, prefix_v)
    standard_error = draws.std(dim=0) / math.sqrt(len(draws))
    assert ((draws.mean(dim=0) - wanted) / standard_error).abs().max() < 4.5


@pytest.mark.parametrize(
    ("prefix_k", "prefix_v", "message"),
    [
        (torch.zeros(2, 7, 4), torch.zeros(2, 7, 3), "prefix_k is float32"),
        (normal(2, 7, 4), normal(2, 7, 3), "prefix_k is float64"),
        (normal(2, 7, 3), normal(3, 7, 3), "prefix_v is float64"),
        (normal(2, 7, 3), normal(2, 6, 3), "7 keys and 6 values"),
    ],
)
def test_prefixes_that_do_not_fit_are_refused(prefix_k, prefix_v, message):
    q, k, v = tokens(2, 4, 2, 5, 6, 3)
    with pytest.raises(AttangentError, match=message):
        prefix_attention(q, k, v, prefix_k, prefix_v)
