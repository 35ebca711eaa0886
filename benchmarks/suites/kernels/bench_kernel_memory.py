"""Memory of the streamed kernels against the width: it should not grow with m."""

from benchmarks.harness.benchmark import Benchmark, Contestant, Goal
from benchmarks.suites.kernels import bench_kernel, bench_prefix_kernel

NARROW = {"n": 64, "d": 16, "m": 2**14}
WIDE = {"n": 64, "d": 16, "m": 2**18}

BENCHMARKS = [
    Benchmark(
        name="kernel-memory",
        about="Peak memory of a kernel (1024, 1024) beside the network itself at two widths m.",
        sizes=[NARROW, WIDE],
        contestants=[
            Contestant("softmax", bench_kernel.closed_form),
            Contestant("prefix", bench_prefix_kernel.closed_form, same_work=False),
        ],
        baseline="softmax",
        goals=[
            Goal(name, against=name, size=WIDE, against_size=NARROW, of="peak_bytes", at_most=1.2)
            for name in ("softmax", "prefix")
        ],
    )
]
