"""`python -m benchmarks.suites.kernels.neural_tangents_child IMPLEMENTATION MODEL INPUTS`: see
`neural_tangents`."""

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from benchmarks.harness.child import serve

PACKAGES = ("neural-tangents", "jax", "jaxlib", "numpy", "scipy")


def build(implementation: str, model: str, inputs: str) -> Callable[[], Any]:
    """The kernel J J'/m in output-major order, compiled, in float64."""
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads={threads}"
    import jax
    import neural_tangents as nt
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    given = np.load(inputs, allow_pickle=False)
    X, W, a = (jax.numpy.asarray(given[name]) for name in ("X", "W", "a"))
    m = W.shape[1]

    def outputs(W: Any, x: Any) -> Any:
        values = W * a if model == "prefix" else a
        return m * jax.nn.softmax(x @ W, axis=-1) @ values.T

    chosen = getattr(nt.NtkImplementation, implementation)
    kernel = nt.empirical_ntk_fn(outputs, trace_axes=(), vmap_axes=0, implementation=chosen)

    @jax.jit
    def output_major(W: Any, X: Any) -> Any:
        blocks = kernel(X, None, W) / m  # (i, j, l, k)
        n, _, d, _ = blocks.shape
        return blocks.transpose(2, 0, 3, 1).reshape(d * n, d * n)

    return lambda: output_major(W, X).block_until_ready()


if __name__ == "__main__":
    serve(lambda: build(*sys.argv[1:]), lambda: {package: version(package) for package in PACKAGES})
