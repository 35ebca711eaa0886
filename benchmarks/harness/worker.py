"""`python -m benchmarks.harness.worker BENCHMARK CONTESTANT SIZE`: one contestant in a process of its own."""

import json
import sys

from benchmarks.harness.benchmark import Contestant
from benchmarks.harness.child import serve
from benchmarks.harness.discover import discover
from benchmarks.harness.measure import fixed_threads


def main(benchmark_name: str, contestant_name: str, size: str) -> None:
    benchmark = discover()[benchmark_name]
    contestant = benchmark.contestant(contestant_name)
    assert isinstance(contestant, Contestant), "a contestant from outside brings its own program"
    with fixed_threads(benchmark.threads):
        serve(lambda: contestant.whole(json.loads(size)))


if __name__ == "__main__":
    main(*sys.argv[1:])
