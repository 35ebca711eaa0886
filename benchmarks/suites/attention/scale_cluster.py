"""`python -m benchmarks.suites.attention.scale_cluster`: a kernel on a local Dask cluster of 1 and 2 workers.

The model is T(n) = work/n + what is sent / rate: the work is that of one worker without sending, the bytes
are those of the pickled spans and of the sums that come back, the rate is what one worker shows.
docs/scale.md reads the result. Two workers want two free cores. `--audit` measures nothing: it prints how
long the quick audit takes on n workers by the times that its claims declare.
"""

import heapq
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.kernels.gram import _ALGORITHMS, _SPANS, choose
from attangent.kernels.tangent import blocks

POINTS, DIM, NEURONS, ROUNDS = 1024, 32, 16384, 2


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bytes_sent(network: Any, X: torch.Tensor) -> int:
    """Spans there and sums back, as pickle writes them."""
    tangent = network.tangent(X)
    algorithm = _ALGORITHMS[choose(tangent.layout, None, "auto")]
    total = 0
    for span in blocks(network.m, -(-network.m // _SPANS)):
        part = tangent.part(span)
        total += len(pickle.dumps(part)) + len(pickle.dumps(algorithm.sums(part, None)))
    return total


def on_cluster(network: Any, X: torch.Tensor, workers: int) -> tuple[float, float]:
    """Seconds until the cluster is there, and the least of a kernel on it; the first one imports torch."""
    from distributed import Client, LocalCluster

    start = time.perf_counter()
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster), parallel_config(backend="dask"):
        network.kernel(X, jobs=workers)
        ready = time.perf_counter() - start
        return ready, min(seconds(lambda: network.kernel(X, jobs=workers)) for _ in range(ROUNDS))


def predicted(alone: float, first: float, workers: Sequence[int]) -> list[float]:
    """T(n) = work/n + (T(1) - work): what one worker takes longer than no cluster is sent whatever n is."""
    return [alone / n + max(0.0, first - alone) for n in workers]


def audit_seconds(seconds: Sequence[float], workers: int) -> float:
    """The longest tasks first, each to the worker that is free first: when the last one ends."""
    ends = [0.0] * workers
    for task in sorted(seconds, reverse=True):
        heapq.heapreplace(ends, ends[0] + task)
    return max(ends)


def print_audit(seeds: int = 3) -> None:
    from attangent.audit.registry import all_claims

    claims = all_claims().values()
    tasks = [claim.seconds for claim in claims for _ in range(seeds)]
    print(
        f"{len(claims)} claims, {seeds} seeds, {sum(tasks):.0f} s of one core, the longest {max(tasks):.0f} s"
    )
    print("| workers | seconds | of ideal |", "|---|---:|---:|", sep="\n")
    for workers in (1, 2, 4, 8, 16, 32, 64):
        took = audit_seconds(tasks, workers)
        print(f"| {workers} | {took:.0f} | {sum(tasks) / workers / took:.0%} |")


def main(counts: Sequence[int] = (1, 2)) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # for the workers
    X, _ = unit_data(POINTS, DIM, 1, seed=0)
    network = SoftmaxNetwork(DIM, 1, NEURONS)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        alone = min(seconds(lambda: network.kernel(X)) for _ in range(ROUNDS))
        found = [on_cluster(network, X, n) for n in counts]
    model = predicted(alone, found[0][1], counts)
    print(f"alone {alone:.2f} s, sent {bytes_sent(network, X) / 1e6:.0f} MB, load {os.getloadavg()[0]:.0f}")
    print("| workers | until ready | kernel | model | of ideal |", "|---|---:|---:|---:|---:|", sep="\n")
    for n, (ready, took), said in zip(counts, found, model, strict=True):
        print(f"| {n} | {ready:.1f} s | {took:.2f} s | {said:.2f} s | {alone / n / took:.0%} |")
    print(json.dumps({"alone": alone, "found": found}))


if __name__ == "__main__" and "--audit" in sys.argv:
    print_audit()
elif __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or (1, 2))
