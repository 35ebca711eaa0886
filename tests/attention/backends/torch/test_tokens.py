import torch

from attangent.attention.backends.torch.tokens import flash, is_fused
from attangent.attention.masks import Mask
from tests.attention.cases import tokens


def test_cpu_tokens_go_to_the_fused_cpu_attention():
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        assert is_fused(*tokens(1, 2, 2, 3, 3, 4, dtype=dtype), Mask())


def test_what_no_kernel_can_do_is_left_to_the_portable_path():
    q, k, v = tokens(1, 2, 2, 3, 3, 4)
    assert not is_fused(q, k, tokens(1, 2, 2, 3, 3, 4, value_dim=5)[2], Mask())
    assert not is_fused(q[:, :, :0], k, v, Mask())
    assert not is_fused(q, k[:, :, :0], v[:, :, :0], Mask())
    trained = torch.zeros(1, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert not is_fused(q, k, v, Mask(bias=trained))
    assert not is_fused(*(t.to("meta") for t in (q, k, v)), Mask())


def test_cpu_operator_marks_an_empty_row_by_zero_not_minus_infinity():
    """Why `Mask.empty` exists: the operator's logsumexp of a row without tokens is 0."""
    q, k, v = tokens(1, 1, 1, 2, 2, 4)
    bias = torch.tensor([[-torch.inf, -torch.inf], [0.0, 0.0]], dtype=torch.float64)[None, None]
    out, lse = flash(q, k, v, Mask(bias=bias), 0.5)
    assert lse[0, 0, 0] == 0
    assert (out[0, 0, 0] == 0).all()
