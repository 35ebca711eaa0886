"""All benchmarks of this folder."""

import importlib
import pkgutil

from attangent._core.errors import AttangentError
from benchmarks import suites
from benchmarks.harness.benchmark import Benchmark


def discover() -> dict[str, Benchmark]:
    """The benchmarks of every module `bench_*`, by name."""
    found: dict[str, Benchmark] = {}
    modules = (module.name for module in pkgutil.walk_packages(suites.__path__, f"{suites.__name__}."))
    for module in sorted(name for name in modules if ".bench_" in name):
        for benchmark in importlib.import_module(module).BENCHMARKS:
            if benchmark.name in found:
                raise AttangentError(f"two benchmarks are named {benchmark.name!r}: rename one")
            found[benchmark.name] = benchmark
    return found
