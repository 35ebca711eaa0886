"""Figure 3 of P1 timed: prefix attention against the prefix length m, over NTK-Attention, and its exponents.

    python -m benchmarks.suites.attention.prefix_exponents

Algorithms 3 and 4 run line by line in float32 on one thread with d = 32. Lengths alternate within a round,
and each counts at its fastest round of CPU time. Times are given over that of NTK-Attention in the same run.
"""

import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from attangent.attention.features import Elu
from attangent.papers.p1_prefix.claims.attention_setting import algorithm_3, algorithm_4
from benchmarks.harness.measure import fixed_threads

D = 32
TOKENS = (32, 64, 128, 256)
LENGTHS = tuple(4**i for i in range(9))
ROUNDS = 9
LEAST_SECONDS = 0.01


def tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Small random numbers of these shapes, the same in every run."""
    draw = torch.Generator().manual_seed(0)
    return [0.1 * torch.randn(shape, generator=draw) for shape in shapes]


def prefix_work(L: int, m: int) -> Callable[[], Tensor]:
    given = tensors((L, D), (m, D), (D, D), (D, D), (D, D))
    return lambda: algorithm_3(*given)


def ntk_work(L: int) -> Callable[[], Tensor]:
    X, Z, k, *weights = tensors((L, D), (D, D), (D,), (D, D), (D, D), (D, D))
    return lambda: algorithm_4(X, Z, k.abs(), *weights, phi=Elu(D))


def seconds(work: Callable[[], Tensor]) -> float:
    """CPU seconds of one call, over as many calls as take LEAST_SECONDS."""
    calls, begin = 0, time.process_time()
    while time.process_time() - begin < LEAST_SECONDS:
        work()
        calls += 1
    return (time.process_time() - begin) / calls


def fastest(works: Sequence[Callable[[], Tensor]], rounds: int) -> list[float]:
    """The fastest of `rounds` interleaved measurements of each."""
    taken = [[seconds(work) for work in works] for _ in range(rounds)]
    return [min(times) for times in zip(*taken, strict=True)]


def exponents(lengths: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """The exponent over the whole range, and the largest between neighbouring lengths."""
    pairs = list(zip(lengths, times, strict=True))

    def between(one: tuple[int, float], other: tuple[int, float]) -> float:
        return math.log(other[1] / one[1]) / math.log(other[0] / one[0])

    return between(pairs[0], pairs[-1]), max(between(a, b) for a, b in pairwise(pairs))


def table(rounds: int = ROUNDS, lengths: Sequence[int] = LENGTHS, tokens: Sequence[int] = TOKENS) -> str:
    """Times over those of NTK-Attention: a row for each number of tokens, with its exponents."""
    head = ["L", *(f"m = {m}" for m in lengths), "exponent", "largest between neighbours"]
    rows = [head, ["---"] * len(head)]
    for L in tokens:
        *prefix, ntk = fastest([*(prefix_work(L, m) for m in lengths), ntk_work(L)], rounds)
        whole, steepest = exponents(lengths, prefix)
        cells = (f"{taken / ntk:.2f}" for taken in prefix)
        rows.append([str(L), *cells, f"{whole:.2f}", f"{steepest:.2f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    with torch.inference_mode(), fixed_threads(1):
        print(table())
