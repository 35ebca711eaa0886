"""The Triton kernels against the portable path in float64: on a GPU if there is one, else interpreted."""

import pytest
import torch

pytest.importorskip("triton", reason="pip install 'attangent[gpu]'")

from attangent.attention import RaggedTokens, ntk_attention
from attangent.attention.backends.triton import attention as kernels
from attangent.attention.backends.triton import launch
from attangent.attention.backends.triton.attention import kernel_prefix, row_prefixes
from tests.attention.cases import make_state, normal, tokens

GPU = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    GPU == "cpu" and not launch.INTERPRETED, reason="Triton was imported without its interpreter"
)


def triton_attention(*inputs):
    moved = [each.to(GPU) if isinstance(each, torch.Tensor | torch.nn.Module) else each for each in inputs]
    out = kernels.triton_attention(*moved)
    return None if out is None else out.cpu()


def single(state):
    """The same state in float32."""
    import copy

    return copy.deepcopy(state).float()


def close(ours, reference, tolerance=2e-6):
    reference = reference.double()
    error = (ours.double() - reference).abs().max() / (1 + reference.abs().max())
    assert error <= tolerance, error


def test_logits_and_virtual_tokens_are_capped():
    q, k, v = tokens(1, 2, 2, 5, 7, 4)
    state = make_state("anchors-softcap", 4, 2)
    expected = ntk_attention(q, k, v, state, softcap=2.0)
    close(triton_attention(q.float(), k.float(), v.float(), single(state), None, False, 0.5, 2.0), expected)


def test_sixteen_bit_inputs_are_summed_in_float32():
    q, k, v = (t.bfloat16() for t in tokens(1, 2, 1, 8, 40, 16))
    state = make_state("learned-elu", 16, 2)
    expected = ntk_attention(q.double(), k.double(), v.double(), state)
    out = triton_attention(q, k, v, single(state), None, False, 0.25, None)
    assert out.dtype == torch.bfloat16
    close(out, expected, 1e-2)


def test_rows_without_tokens_or_mass_are_zero():
    q, k, v = (t.float() for t in tokens(1, 1, 1, 3, 4, 4))
    hidden = torch.zeros(1, 1, 3, 4, dtype=torch.bool)
    state = single(make_state("elu", 4, 1))
    alone = triton_attention(q, k, v, state, hidden, False, 0.5, None)
    close(alone, ntk_attention(q.double(), k.double(), v.double(), state.double(), mask=hidden))
    state = single(make_state("elu", 4, 1))
    for parameter in state.parameters():
        parameter.data.zero_()
    assert triton_attention(q, k, v, state, hidden, False, 0.5, None).eq(0).all()


def test_a_zero_state_is_plain_attention():
    q, k, v = (t.float() for t in tokens(2, 2, 2, 6, 6, 8))
    state = single(make_state("learned-gelu", 8, 2))
    for parameter in (state.Z, state.mass):
        parameter.data.zero_()
    out = triton_attention(q, k, v, state, None, True, 8**-0.5, None)
    close(out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_extreme_logits_and_masses_stay_in_range():
    q, k, v = (t.float() for t in tokens(1, 2, 2, 4, 6, 4))
    keys = [normal(3, 4, dtype=torch.float32), normal(5, 4, seed=1, dtype=torch.float32)]
    masses = [torch.tensor([1e30, 1e-30, 0.0]), torch.tensor([0.0, 1e30, 1.0, 2.0, 1e-20])]
    ragged = RaggedTokens.of(keys, keys, masses)
    for factor in (1.0, 1e3):
        out = triton_attention(factor * q, k, v, ragged, None, False, 0.5, None)
        double = RaggedTokens.of(*([t.double() for t in each] for each in (keys, keys, masses)))
        close(out, ntk_attention(factor * q.double(), k.double(), v.double(), double), 1e-4)


def ragged(sizes, seed):
    keys = [normal(size, 8, seed=seed + i, dtype=torch.float32) for i, size in enumerate(sizes)]
    values = [normal(size, 6, seed=seed + 9 + i, dtype=torch.float32) for i, size in enumerate(sizes)]
    return RaggedTokens.of(keys, values, [torch.linspace(0.5, 2.0, size) for size in sizes])


def test_decoding_takes_another_prefix_per_row_without_padding():
    q, k, v = (t.float() for t in tokens(3, 4, 2, 1, 150, 8, value_dim=6))
    states = [ragged((70, 3), 1), ragged((1, 200), 5), ragged((5, 5), 7)]
    bias = torch.zeros(3, 1, 1, 150).masked_fill(torch.arange(150) < 20, -torch.inf)
    bias[0] = 0
    rows = [tensor.to(GPU) for tensor in row_prefixes(states).tensors]
    inputs = (each.to(GPU) for each in (q, k, v, bias))
    out, lse = (each.cpu() for each in launch.prefix_decode(*inputs, rows, 8**-0.5, 0.0, 0.0))
    for row, state in enumerate(states):
        one = slice(row, row + 1)
        expected = ntk_attention(q[one], k[one], v[one], state, mask=bias[one])
        close(out[one], expected)
    assert lse.isfinite().all()


def test_one_query_without_gradients_is_decoded():
    q, k, v = (t.float() for t in tokens(2, 4, 2, 1, 33, 8, value_dim=6))
    state = ragged((40, 7), 2)
    with torch.no_grad():
        out = triton_attention(q, k, v, state, None, True, 8**-0.5, None)
    close(out, ntk_attention(q, k, v, state, causal=True))


def test_unknown_maps_and_types_are_left_to_the_portable_path():
    q, k, v = (t.float() for t in tokens(1, 2, 2, 3, 3, 4))
    assert triton_attention(q, k, v, single(make_state("taylor-3", 4, 2)), None, False, 0.5, None) is None
    state = make_state("elu", 4, 2)
    assert triton_attention(q.double(), k.double(), v.double(), state, None, False, 0.5, None) is None
    assert kernel_prefix(make_state("printed", 4, 2), 0.5, 4) is None


def test_the_operators_keep_torchs_rules():
    """Schemas, shape functions and gradients as `torch.compile` expects them."""
    q, k, v = (t.float().requires_grad_() for t in tokens(1, 2, 1, 4, 5, 4))
    prefix = kernel_prefix(single(make_state("learned-elu", 4, 2)), 0.5, 4)
    tensors = [t.detach() for t in prefix.tensors]
    arguments = (q, k, v, None, tensors, prefix.kind, True, 0.5, 0.0, 0.0, prefix.gain)
    torch.library.opcheck(launch.prefix_attention, arguments, test_utils=["test_schema", "test_faketensor"])
