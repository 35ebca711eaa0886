"""`python -m benchmarks.suites.attention.scale`: what a model of Llama 70B's shape costs behind a prompt of
a million tokens.

One layer is measured on one thread in parts that fit here (its attention over some thousand tokens, a state
of some hundred, a product with a part of its weights, the fit of one head). Each part's cost is fitted as a
line in its size, and the whole is counted from that. Times are CPU times, the least of several rounds:
other work on the machine hardly enters. docs/scale.md reads the result.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

from attangent._core.random import generator
from attangent.attention import PrefixState
from attangent.attention.backends.cpu.decoding import merge_anchors
from attangent.attention.backends.torch.tokens import CpuFlash
from attangent.attention.features import Anchors
from attangent.attention.masks import Mask
from benchmarks.harness.folders import RESULTS
from benchmarks.harness.measure import fixed_threads
from benchmarks.harness.report import write

BYTES = 2
"""Of a number in bfloat16, as such models and their caches are kept."""


@dataclass(frozen=True)
class Shape:
    """A decoder with grouped queries and a gated MLP."""

    layers: int = 80
    hidden: int = 8192
    heads: int = 64
    kv_heads: int = 8
    head: int = 128
    inner: int = 28672

    @property
    def layer_weights(self) -> int:
        attention = 2 * self.hidden * self.head * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.inner

    def cache_bytes(self, tokens: int) -> int:
        """Keys and values of so many tokens in all layers."""
        return BYTES * 2 * self.layers * self.kv_heads * self.head * tokens

    def state_bytes(self, size: int) -> int:
        """`size` virtual tokens for each KV head of every layer: key, value and mass."""
        return BYTES * self.layers * self.kv_heads * size * (2 * self.head + 1)

    def attention_flops(self, tokens: int) -> float:
        """Causal attention of a whole prompt in all layers."""
        return 2.0 * self.layers * self.heads * self.head * tokens**2

    def linear_flops(self, tokens: int) -> float:
        return 2.0 * self.layers * self.layer_weights * tokens


LLAMA_70B = Shape()


@dataclass(frozen=True)
class Line:
    """seconds = start + slope size, from two sizes."""

    start: float
    slope: float

    @classmethod
    def through(cls, sizes: Sequence[int], seconds: Sequence[float]) -> "Line":
        slope = (seconds[-1] - seconds[0]) / (sizes[-1] - sizes[0])
        return cls(seconds[0] - slope * sizes[0], slope)

    def at(self, size: float) -> float:
        return self.start + self.slope * size


@dataclass(frozen=True)
class Measured:
    """Seconds of one core."""

    token: Line
    """One query of every head in one layer, over so many tokens of a cache."""
    state: Line
    """The same over so many virtual tokens for each KV head, merged with what the cache gave."""
    weights: float
    """A layer's other products for one token."""
    attention_rate: float
    """Operations each second of causal attention over a prompt."""
    linear_rate: float
    """And of products with weights, 256 tokens at once."""
    fit: Line
    """The fit of one head's state of `FIT_SIZE` virtual tokens on 1,024 queries, to so many tokens."""


FIT_SIZE, FIT_QUERIES = 128, 1024
_FLASH, _OPEN, _CAUSAL = CpuFlash(), Mask(), Mask(causal=True)


def least_seconds(work: Callable[[], object], rounds: int) -> float:
    """The least CPU time of this thread over some rounds, after one that does not count."""
    work()
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return min(found)


def draw(*shape: int, stream: str) -> torch.Tensor:
    return torch.randn(shape, generator=generator(0, f"scale {stream}"))


def token_seconds(shape: Shape, context: int, rounds: int) -> float:
    q = draw(1, shape.heads, 1, shape.head, stream="q")
    k, v = (draw(1, shape.kv_heads, context, shape.head, stream=name) for name in "kv")
    return least_seconds(lambda: _FLASH.forward(q, k, v, _OPEN, shape.head**-0.5), rounds)


def state_seconds(shape: Shape, size: int, rounds: int) -> float:
    q, out = (draw(1, shape.heads, 1, shape.head, stream=name) for name in ("q", "out"))
    lse = draw(1, shape.heads, 1, stream="lse")
    columns = [draw(shape.head, size, stream=f"c{h}") for h in range(shape.kv_heads)]
    values = [draw(size, shape.head, stream=f"u{h}") for h in range(shape.kv_heads)]
    merge = merge_anchors(columns, [torch.zeros(1, size)] * shape.kv_heads, values, shape.heads)
    if merge is None:
        raise SystemExit("the compiled merging is not installed: install attangent with a C compiler")
    merge.products = 0  # the code itself, also where torch's threads would be faster
    return least_seconds(lambda: merge(out, lse, q), rounds)


def weights_seconds(shape: Shape, rounds: int) -> float:
    """A product with `hidden` x `hidden` weights, scaled to all of a layer's: memory decides."""
    weights, x = torch.zeros(shape.hidden, shape.hidden), draw(1, shape.hidden, stream="x")
    return least_seconds(lambda: x @ weights.mT, rounds) * shape.layer_weights / shape.hidden**2


def attention_rate(shape: Shape, length: int, rounds: int) -> float:
    q = draw(1, shape.heads, length, shape.head, stream="q")
    k, v = (draw(1, shape.kv_heads, length, shape.head, stream=name) for name in "kv")
    seconds = least_seconds(lambda: _FLASH.forward(q, k, v, _CAUSAL, shape.head**-0.5), rounds)
    return 2.0 * shape.heads * shape.head * length**2 / seconds


def linear_rate(shape: Shape, rows: int, rounds: int) -> float:
    weights, x = torch.zeros(shape.hidden, shape.hidden // 4), draw(rows, shape.hidden, stream="x")
    return 2.0 * rows * weights.numel() / least_seconds(lambda: x @ weights, rounds)


def fit_seconds(shape: Shape, tokens: int, rounds: int) -> float:
    keys, values = (draw(1, tokens, shape.head, stream=name) for name in ("keys", "values"))
    queries = draw(1, FIT_QUERIES, shape.head, stream="queries")
    features = Anchors(keys[:, :: tokens // FIT_SIZE][:, :FIT_SIZE])
    return least_seconds(lambda: PrefixState.fit(features, keys, values, queries), rounds)


def measure(shape: Shape = LLAMA_70B, part: int = 1, rounds: int = 5) -> Measured:
    """All of it; `part` divides the sizes, for a quick look."""
    contexts, sizes, prompts = (
        [size // part for size in given] for given in ((2048, 16384), (128, 1024), (4096, 16384))
    )
    return Measured(
        Line.through(contexts, [token_seconds(shape, size, rounds) for size in contexts]),
        Line.through(sizes, [state_seconds(shape, size, rounds) for size in sizes]),
        weights_seconds(shape, rounds),
        attention_rate(shape, 512 // part, rounds),
        linear_rate(shape, 256 // part, rounds),
        Line.through(prompts, [fit_seconds(shape, size, max(2, rounds // 2)) for size in prompts]),
    )


def table(shape: Shape, seen: Measured, tokens: int, sizes: Sequence[int]) -> list[str]:
    """What a prompt costs as it is and as states of these sizes: memory, and seconds of one core."""
    layers = shape.layers
    behind, others = layers * seen.token.at(tokens), layers * seen.weights
    lines = [
        "| the prompt as | memory | one new token, attention | one new token, all |",
        "|---|---:|---:|---:|",
        f"| {tokens:,} tokens | {gigabytes(shape.cache_bytes(tokens))} | {behind:.3g} s "
        f"| {behind + others:.3g} s |",
    ]
    for size in sizes:
        behind = layers * seen.state.at(size)
        lines.append(
            f"| states of {size:,} | {gigabytes(shape.state_bytes(size))} | {behind:.3g} s "
            f"| {behind + others:.3g} s |"
        )
    return lines


def once(shape: Shape, seen: Measured, tokens: int) -> list[str]:
    """What compressing takes once, in hours of one core."""
    reading = shape.attention_flops(tokens) / seen.attention_rate / 3600
    weights = shape.linear_flops(tokens) / seen.linear_rate / 3600
    fitting = shape.layers * shape.kv_heads * seen.fit.at(tokens) / 3600
    return [
        "| once | hours of one core |",
        "|---|---:|",
        f"| reading the prompt, attention | {reading:,.0f} |",
        f"| reading the prompt, products with weights | {weights:,.0f} |",
        f"| fitting {FIT_SIZE} virtual tokens in {shape.layers * shape.kv_heads} heads | {fitting:,.1f} |",
    ]


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"


def main() -> None:
    with fixed_threads(1):
        seen = measure(part=8, rounds=2) if "--quick" in sys.argv else measure()
    if "--quick" not in sys.argv:
        write(RESULTS / "scale.json", json.dumps(asdict(seen), indent=1) + "\n")
    print(*table(LLAMA_70B, seen, 10**6, (128, 1024, 4096)), "", *once(LLAMA_70B, seen, 10**6), sep="\n")
    print("", json.dumps(asdict(seen)), sep="\n")


if __name__ == "__main__":
    main()
