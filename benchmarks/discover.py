"""All benchmarks of this folder."""

import importlib
import pkgutil

import benchmarks
from attangent._core.errors import AttangentError
from benchmarks.harness import Benchmark


def discover() -> dict[str, Benchmark]:
    """The benchmarks of every module `bench_*`, by name."""
    found: dict[str, Benchmark] = {}
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    for module in sorted(name for name in modules if name.startswith("bench_")):
        for benchmark in importlib.import_module(f"benchmarks.{module}").BENCHMARKS:
            if benchmark.name in found:
                raise AttangentError(f"two benchmarks are named {benchmark.name!r}: rename one")
            found[benchmark.name] = benchmark
    return found
