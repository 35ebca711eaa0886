"""`make gpu-check`: test and time the Triton kernels on a GPU; without one, compile them and estimate.

Writes gpu-check.md. With a GPU: the backend tests, then prefill, training and decoding against SDPA,
FlexAttention and FlashAttention. Without: registers, spills and tensor-core instructions per architecture,
and a roofline estimate.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

OUT = Path("gpu-check.md")
HEADS = 32
TOKEN_HEADS = 8
DIM = 128
PREFIX = 64
LENGTHS = (1024, 4096)
DECODE_ROWS = 16


class Gpu(NamedTuple):
    """Peak rates from the vendor's data sheet: dense bfloat16 operations and memory bytes per second."""

    name: str
    flops: float
    bytes: float


GPUS = (Gpu("A100", 312e12, 2.04e12), Gpu("H100", 989e12, 3.35e12), Gpu("B200", 2250e12, 8.0e12))


class Cost(NamedTuple):
    """What a kernel must do: operations, bytes from memory, and the prefix's share of both."""

    kernel: str
    length: int
    flops: float
    bytes: float
    prefix_flops: float
    prefix_bytes: float

    def microseconds(self, gpu: Gpu) -> float:
        """Lower bound on the time: the slower of arithmetic and memory at peak rates."""
        return 1e6 * max(self.flops / gpu.flops, self.bytes / gpu.bytes)


def prefix_cost(kind: str, queries: int) -> tuple[float, float]:
    """Operations of `queries` rows with the prefix of one head, and its bytes in float32.

    Virtual tokens take q c and then u: 2 r d + 2 r d operations per query; a learned map takes W and Z.
    """
    flops = 4.0 * queries * PREFIX * DIM
    per_row = {"tokens": 2 * DIM + 2, "learned-elu": 2 * DIM + 2, "elu": DIM + 1}[kind]
    return (flops if kind != "elu" else 2.0 * queries * DIM * DIM), 4.0 * PREFIX * per_row


def costs() -> Iterator[Cost]:
    """Yield the cost of a causal prefill, its gradients, and one decoding step, for bfloat16."""
    for length in LENGTHS:
        tokens = 2.0 * length * DIM
        pairs = length * length / 2
        for kernel, products, traffic in (("prefill", 2, 2), ("gradients", 5, 5)):
            flops = 2.0 * products * pairs * DIM * HEADS
            memory = tokens * (traffic * HEADS + traffic * TOKEN_HEADS)
            more_flops, more_bytes = prefix_cost("tokens", length)
            more_flops *= HEADS * products / 2
            more_bytes *= TOKEN_HEADS
            yield Cost(kernel, length, flops + more_flops, memory + more_bytes, more_flops, more_bytes)
        flops = 4.0 * length * DIM * HEADS * DECODE_ROWS
        memory = 2 * tokens * TOKEN_HEADS * DECODE_ROWS
        more_flops, more_bytes = prefix_cost("tokens", 1)
        more_flops *= HEADS * DECODE_ROWS
        more_bytes *= TOKEN_HEADS * DECODE_ROWS
        yield Cost("decode", length, flops + more_flops, memory + more_bytes, more_flops, more_bytes)


def roofline() -> Iterator[str]:
    """Yield a Markdown table of lower bounds on the time per kernel and GPU."""
    yield f"Least microseconds: {HEADS} heads of {DIM}, {TOKEN_HEADS} key heads, {PREFIX} prefix tokens,"
    yield f"one row (decoding: {DECODE_ROWS}). These are peak rates, so real times are longer."
    yield ""
    yield "| kernel | tokens | " + " | ".join(gpu.name for gpu in GPUS) + " | prefix: work | prefix: bytes |"
    yield "|---|---|" + "---|" * (len(GPUS) + 2)
    for cost in costs():
        times = " | ".join(f"{cost.microseconds(gpu):.1f}" for gpu in GPUS)
        shares = f"{cost.prefix_flops / cost.flops:.1%} | {cost.prefix_bytes / cost.bytes:.1%}"
        yield f"| {cost.kernel} | {cost.length} | {times} | {shares} |"


def binaries() -> Iterator[str]:
    """Yield a Markdown table of the compiled kernels, one row per case and architecture."""
    from benchmarks.suites.attention.gpu_binaries import TARGETS, cases, compile_case

    yield "| kernel | target | registers | shared kB | spills | tensor-core instructions |"
    yield "|---|---|---|---|---|---|"
    wanting = []
    for case in cases():
        for target in TARGETS:
            binary = compile_case(case, target)
            if binary.spilled or binary.matrix_instructions < binary.matrix_products:
                wanting.append(f"{case} ({target})")
            shared = f"{binary.shared_bytes / 1024:.0f}"
            used = f"{binary.registers} | {shared} | {binary.spilled} | {binary.matrix_instructions}"
            yield f"| {case} | {target} | {used} |"
    yield ""
    yield f"Kernels with spills or with products outside tensor cores: {'; '.join(wanting) or 'none'}."


class Inputs(NamedTuple):
    """Queries, keys and values on the GPU, and the prefix as plain tokens and as a state."""

    q: Tensor
    k: Tensor
    v: Tensor
    all_k: Tensor
    all_v: Tensor
    state: Any


def inputs(rows: int, queries: int, length: int, trained: bool) -> Inputs:
    from attangent.attention import RaggedTokens

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=trained)

    q, k, v = drawn(rows, HEADS, queries, DIM), *(drawn(rows, TOKEN_HEADS, length, DIM) for _ in "kv")
    keys = torch.randn(TOKEN_HEADS, PREFIX, DIM, device="cuda")
    values = torch.randn_like(keys)
    masses = torch.ones(TOKEN_HEADS, PREFIX, device="cuda")
    state = RaggedTokens.of(list(keys), list(values), list(masses))
    more = (each.to(q).expand(rows, -1, -1, -1) for each in (keys, values))
    joined = [torch.cat([first, tokens], dim=2) for first, tokens in zip(more, (k, v), strict=True)]
    return Inputs(q, k, v, *joined, state)


def rivals(given: Inputs, causal: bool) -> dict[str, Callable[[], Tensor]]:
    """Ours, and each peer with the prefix as ordinary tokens, which is the same function."""
    from torch.nn.attention.bias import causal_lower_right
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    from torch.nn.functional import scaled_dot_product_attention

    from attangent.attention import ntk_attention

    q, k, v, all_k, all_v, state = given
    bias = causal_lower_right(q.shape[2], all_k.shape[2]) if causal else None
    calls: dict[str, Callable[[], Tensor]] = {
        "attangent": lambda: ntk_attention(q, k, v, state, causal=causal),
        "SDPA": lambda: scaled_dot_product_attention(q, all_k, all_v, attn_mask=bias, enable_gqa=True),
        "SDPA without prefix": lambda: scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=True
        ),
    }
    flex = torch.compile(flex_attention)
    visible = None
    if causal:
        visible = create_block_mask(
            lambda b, h, i, j: j <= i + PREFIX, None, None, q.shape[2], all_k.shape[2], device="cuda"
        )
    calls["FlexAttention"] = lambda: flex(q, all_k, all_v, block_mask=visible, enable_gqa=True)
    try:
        from flash_attn import flash_attn_func  # pyright: ignore[reportMissingImports]
    except ImportError:
        return calls
    swapped = [each.transpose(1, 2) for each in (q, all_k, all_v)]
    calls["FlashAttention"] = lambda: flash_attn_func(*swapped, causal=causal).transpose(1, 2)
    return calls


def timed() -> Iterator[str]:
    """Yield a Markdown table of measured times; the ratio is to SDPA with the prefix as tokens."""
    from triton.testing import do_bench

    yield "| job | tokens | method | milliseconds | of SDPA's time |"
    yield "|---|---|---|---|---|"
    for length in LENGTHS:
        for job, rows, queries, trained in (
            ("prefill", 1, length, False),
            ("training step", 1, length, True),
            ("decode", DECODE_ROWS, 1, False),
        ):
            given = inputs(rows, queries, length, trained)
            calls = rivals(given, causal=queries > 1)
            times = {name: do_bench(_step(call, trained)) for name, call in calls.items()}
            for name, took in times.items():
                yield f"| {job} | {length} | {name} | {took:.3f} | {took / times['SDPA']:.2f} |"


def _step(call: Callable[[], Tensor], trained: bool) -> Callable[[], Any]:
    if trained:
        return lambda: call().float().square().sum().backward()
    return torch.no_grad()(call)


def tested() -> Iterator[str]:
    """Yield the outcome of the backend tests on this GPU."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/attention/backends"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    yield f"Tests on the GPU: exit code {done.returncode}"
    yield ""
    yield "```"
    yield from done.stdout.splitlines()[-15:]
    yield "```"


def main() -> None:
    if torch.cuda.is_available():
        title = f"# {torch.cuda.get_device_name()}, torch {torch.__version__}"
        parts = (tested(), timed())
    else:
        title = f"# No GPU here: compiled kernels and estimates, torch {torch.__version__}"
        parts = (roofline(), binaries())
    with OUT.open("w") as file:
        for lines in ((title, ""), *parts):
            for line in (*lines, ""):
                print(line, flush=True)
                file.write(line + "\n")
    print(f"Written to {OUT}")


if __name__ == "__main__":
    main()
