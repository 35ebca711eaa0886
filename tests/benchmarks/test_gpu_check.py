"""The estimates of `make gpu-check`."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

pytest.importorskip("triton", reason="no Triton here")

from attangent.attention import RaggedTokens
from attangent.attention.backends.triton.attention import kernel_prefix
from benchmarks.suites.attention import gpu_check
from tests.attention.cases import normal


def test_operations_are_those_that_torch_counts(monkeypatch):
    """A decoding step does what plain products over tokens and virtual tokens do."""
    monkeypatch.setattr(gpu_check, "LENGTHS", (40,))
    step = next(cost for cost in gpu_check.costs() if cost.kernel == "decode")
    rows, heads, dim = gpu_check.DECODE_ROWS, gpu_check.HEADS, gpu_check.DIM
    q = normal(rows, heads, 1, dim)
    tokens = normal(rows, heads, 40 + gpu_check.PREFIX, dim)
    with FlopCounterMode(display=False) as counter:
        (q @ tokens.mT).softmax(dim=-1) @ tokens
    assert step.flops == counter.get_total_flops()


def test_bytes_of_a_prefix_are_those_of_its_tensors():
    tokens = [normal(gpu_check.PREFIX, gpu_check.DIM).float()]
    state = RaggedTokens.of(tokens, tokens, [normal(gpu_check.PREFIX).float().exp()])
    *read, _, _ = kernel_prefix(state, 1.0, gpu_check.DIM).tensors  # less where each head starts and ends
    assert gpu_check.prefix_cost("tokens", 1)[1] == sum(4 * tensor.numel() for tensor in read)


def test_the_slower_of_arithmetic_and_memory_bounds_the_time():
    gpu = gpu_check.Gpu("none", flops=1e6, bytes=1e3)
    cost = gpu_check.Cost("decode", 1, flops=2e6, bytes=1e3, prefix_flops=0, prefix_bytes=0)
    assert cost.microseconds(gpu) == 2e6
    assert cost._replace(bytes=5e3).microseconds(gpu) == 5e6
