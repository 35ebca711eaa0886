"""NTK-Attention against attention without a prefix, with the prefix itself, and by its authors' formula.

`python -m benchmarks.suites.attention.bench_attention` prints from benchmarks/results/results.json how long
a prefix must be before NTK-Attention is the faster way to have it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent._core.random import generator
from attangent.attention import PrefixState, ntk_attention, prefix_attention
from attangent.attention.backends.torch.portable import portable_attention
from attangent.attention.features import Elu
from attangent.attention.masks import Mask
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Unavailable, Work
from benchmarks.harness.folders import RESULTS
from benchmarks.harness.report import load

HEADS, DIM = 8, 64
PREFIX = 1024
LENGTHS = [{"L": length} for length in (32, 64, 128, 256, 1024, 4096)]
PREFIX_LENGTHS = [{"m": 2**i} for i in range(17)]


def draw(*shape: int, stream: str) -> Tensor:
    return torch.randn(shape, generator=generator(0, f"bench {stream}"))


def tokens(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v (1, 8, length, 64) in float32."""
    q, k, v = (draw(1, HEADS, length, DIM, stream=name) for name in "qkv")
    return q, k, v


def prefix(length: int) -> tuple[Tensor, Tensor]:
    """Keys and values (8, length, 64)."""
    return draw(HEADS, length, DIM, stream="prefix keys"), draw(HEADS, length, DIM, stream="prefix values")


def state_of(length: int = PREFIX) -> PrefixState:
    return PrefixState.from_prefix(Elu(DIM), *prefix(length))


def authors_formula(q: Tensor, k: Tensor, v: Tensor, Z: Tensor, mass: Tensor) -> Tensor:
    """(exp(A) v + phi(q) Z) / (exp(A) 1 + phi(q) k), each part a matrix of its own."""
    A = torch.exp(q @ k.mT / math.sqrt(DIM))
    phi = F.elu(q * DIM**-0.25) + 1
    return (A @ v + phi @ Z) / (A.sum(dim=-1, keepdim=True) + phi @ mass.unsqueeze(-1))


def exactly(size: Size) -> Tensor:
    """The formula in float64."""
    q, k, v = (t.double() for t in tokens(size["L"]))
    with torch.no_grad():
        return portable_attention(q, k, v, state_of().double(), Mask(), 1 / math.sqrt(DIM))


def forward(attend: Any) -> Work:
    def work() -> Tensor:
        with torch.no_grad():
            return attend()

    return work


def plain_forward(size: Size) -> Work:
    q, k, v = tokens(size["L"])
    return forward(lambda: F.scaled_dot_product_attention(q, k, v))


def ntk_forward(size: Size) -> Work:
    (q, k, v), state = tokens(size["L"]), state_of()
    return forward(lambda: ntk_attention(q, k, v, state))


def authors_forward(size: Size) -> Work:
    _refuse_long(size)
    (q, k, v), state = tokens(size["L"]), state_of()
    return forward(lambda: authors_formula(q, k, v, state.Z, state.k))


def _refuse_long(size: Size) -> None:
    if size["L"] > 1024:
        raise Unavailable(f"its matrices of {size['L']} x {size['L']} entries take gigabytes")


def training_step(attend: Any, inputs: Sequence[Tensor]) -> Work:
    """Forward and backward; the answer is the gradient of q."""
    upstream = draw(*inputs[0].shape, stream="upstream")
    return lambda: torch.autograd.grad(attend(), inputs, upstream)[0]


def trained_tokens(size: Size) -> list[Tensor]:
    return [tensor.requires_grad_() for tensor in tokens(size["L"])]


def plain_step(size: Size) -> Work:
    q, k, v = trained_tokens(size)
    return training_step(lambda: F.scaled_dot_product_attention(q, k, v), (q, k, v))


def ntk_step(size: Size) -> Work:
    (q, k, v), state = trained_tokens(size), state_of()
    return training_step(lambda: ntk_attention(q, k, v, state), (q, k, v, *state.parameters()))


def authors_step(size: Size) -> Work:
    _refuse_long(size)
    (q, k, v), state = trained_tokens(size), state_of()
    return training_step(lambda: authors_formula(q, k, v, state.Z, state.k), (q, k, v, *state.parameters()))


def exact_step(size: Size) -> Tensor:
    """The gradient of q in float64."""
    q, k, v = (t.double().requires_grad_() for t in tokens(size["L"]))
    out = portable_attention(q, k, v, state_of().double(), Mask(), 1 / math.sqrt(DIM))
    return torch.autograd.grad(out, q, draw(*q.shape, stream="upstream").double())[0]


def prefix_forward(size: Size) -> Work:
    (q, k, v), (keys, values) = tokens(256), prefix(size["m"])
    return forward(lambda: prefix_attention(q, k, v, keys, values))


def ntk_for_prefix(size: Size) -> Work:
    (q, k, v), state = tokens(256), state_of(size["m"])
    return forward(lambda: ntk_attention(q, k, v, state))


def flops(length: int) -> int:
    """Multiplications and additions of q k', of the weights times v, and of phi(q) Z."""
    return HEADS * (4 * length * length * DIM + 2 * length * DIM * DIM)


def matrix_product(size: Size) -> Work:
    """One product (n, n) (n, columns) of as many FLOPs as attention over `size` tokens."""
    n = 2048
    left = draw(n, n, stream="left")
    right = draw(n, round(flops(size["L"]) / (2 * n * n)), stream="right")
    return forward(lambda: left @ right)


def causal_twice(size: Size) -> Work:
    """Two causal passes do as many FLOPs as one over all pairs."""
    (q, k, v), state = tokens(size["L"]), state_of()

    def attend() -> Tensor:
        ntk_attention(q, k, v, state, causal=True)
        return ntk_attention(q, k, v, state, causal=True)

    return forward(attend)


def break_even(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """The shortest measured prefix with which prefix attention takes longer than NTK-Attention."""
    slower = [
        row["size"]["m"] for row in rows if row["contestant"] == "prefix attention" and row["ratio"] > 1
    ]
    return min(slower, default=None)


def _at(length: int) -> Size:
    return {"L": length}


BENCHMARKS = [
    Benchmark(
        name="attention-forward",
        about=f"Forward pass of attention with {HEADS} heads of {DIM}, one sequence of L tokens, float32. "
        "The baseline has no prefix; the others stand for one of 1024 tokens, with the elu map and r = 64.",
        sizes=LENGTHS,
        contestants=[
            Contestant("sdpa, no prefix", plain_forward, same_work=False),
            Contestant("ntk_attention", ntk_forward),
            Contestant("authors' formula", authors_forward),
        ],
        baseline="sdpa, no prefix",
        threads=2,
        reference=exactly,
        tolerance=1e-4,
        goals=[
            *(
                Goal("ntk_attention", "sdpa, no prefix", _at(length), at_most=most)
                for length, most in ((32, 2.0), (64, 1.5), (128, 1.3), (256, 1.2), (1024, 1.08), (4096, 1.0))
            ),
            *(
                Goal("ntk_attention", "authors' formula", _at(length), at_most=1.0)
                for length in (32, 64, 128, 256)
            ),
            Goal("ntk_attention", "sdpa, no prefix", _at(1024), at_most=1.3, of="peak_bytes"),
            Goal("ntk_attention", "sdpa, no prefix", _at(4096), at_most=1.3, of="peak_bytes"),
            Goal("ntk_attention", "authors' formula", _at(1024), at_most=1 / 4),
        ],
    ),
    Benchmark(
        name="attention-training",
        about="Forward and backward pass of the same, with gradients of q, k, v and, with a prefix, of Z, k.",
        sizes=LENGTHS,
        contestants=[
            Contestant("sdpa, no prefix", plain_step, same_work=False),
            Contestant("ntk_attention", ntk_step),
            Contestant("authors' formula", authors_step),
        ],
        baseline="sdpa, no prefix",
        threads=2,
        reference=exact_step,
        tolerance=1e-4,
        goals=[
            *(
                Goal("ntk_attention", "sdpa, no prefix", _at(length), at_most=most)
                for length, most in ((32, 1.5), (64, 1.2), (128, 1.0), (256, 1.0), (1024, 1.0), (4096, 1.0))
            ),
            Goal("ntk_attention", "sdpa, no prefix", _at(1024), at_most=1.3, of="peak_bytes"),
            Goal("ntk_attention", "sdpa, no prefix", _at(4096), at_most=1.3, of="peak_bytes"),
        ],
    ),
    Benchmark(
        name="attention-flops",
        about="The forward pass against one float32 matrix product, 2048 x 2048 times 2048 x n, of as many "
        "FLOPs. The inverse of a ratio is the share of the product's FLOP rate that attention reaches. A "
        "causal mask halves the FLOPs, so two causal passes count as one.",
        sizes=[{"L": 1024}, {"L": 4096}],
        contestants=[
            Contestant("matrix product", matrix_product, same_work=False),
            Contestant("ntk_attention", ntk_forward, same_work=False),
            Contestant("ntk_attention, causal, twice", causal_twice, same_work=False),
            Contestant("sdpa, no prefix", plain_forward, same_work=False),
        ],
        baseline="matrix product",
        threads=2,
        goals=[
            Goal(name, "matrix product", _at(length), at_most=1 / 0.6)
            for name in ("ntk_attention", "ntk_attention, causal, twice")
            for length in (1024, 4096)
        ],
    ),
    Benchmark(
        name="attention-prefix-length",
        about=f"Forward pass over 256 tokens with {HEADS} heads of {DIM}, float32, after a prefix of m "
        "tokens: with the prefix itself, and with its state of 64 features (other work: an approximation).",
        sizes=PREFIX_LENGTHS,
        contestants=[
            Contestant("ntk_attention", ntk_for_prefix, same_work=False),
            Contestant("prefix attention", prefix_forward, same_work=False),
        ],
        baseline="ntk_attention",
        threads=2,
        goals=[Goal("ntk_attention", "prefix attention", {"m": 2**14}, at_most=1 / 30)],
    ),
]


if __name__ == "__main__":
    measured = load(RESULTS / "results.json")["rows"]
    curve = [row for row in measured if row["name"] == "attention-prefix-length"]
    print(f"break-even at L = 256: prefix attention is slower from m = {break_even(curve)} on")
