"""Kernel matrices J J'/width from tangents: one call that picks the algorithm and streams over neurons.

In units of one bare GEMM (rows x m)(m x rows), rows = points x outputs:

| method | multiplications                | wins                              |
|--------|--------------------------------|-----------------------------------|
| gemm   | 1                              | test-train, few outputs           |
| syrk   | 9/16, upper blocks only        | train-train, few outputs          |
| pairs  | 1/4 (1/2 for test-train)       | many outputs                      |

`pairs` multiplies products of gates, one row per pair of points, with products of values, one row per pair
of outputs: both kinds of pairs are unordered, hence the quarter. docs/benchmarks.md has measurements.
"""

from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent.kernels.checks import check_limit, refuse_above
from attangent.kernels.gram_algorithms import Gemm, Pairs, Syrk
from attangent.kernels.tangent import Layout, Tangent

Method = Literal["auto", "gemm", "syrk", "pairs"]
_OVERHEAD = 32 * 2**20
"""Bytes for stored gates and for the buffers of the BLAS."""
_WORK_FOR_SYRK = 2**25
_WORK_FOR_PAIRS = 2**27
"""Multiplications below which the bookkeeping of the cleverer algorithms costs more than it saves."""
_PAIRS_FROM = {True: 6, False: 8}
"""Number of outputs from which `pairs` is fastest, for symmetric and for test-train kernels."""


_ALGORITHMS: dict[str, Gemm | Pairs] = {"gemm": Gemm(), "syrk": Syrk(), "pairs": Pairs()}


def gram(left: Tangent, right: Tangent | None, method: Method = "auto") -> Float[Tensor, "rows columns"]:
    """Compute K (rows of left, rows of right) in output-major order; `right=None` is the symmetric case."""
    algorithm = _ALGORITHMS[choose(left.layout, None if right is None else right.layout, method)]
    return algorithm.finish(left, right, algorithm.sums(left, right))


def check_kernel_memory(left: Layout, right: Layout | None, method: Method, memory_limit: float) -> None:
    """Raise an AttangentError if a kernel of these sizes would take more than `memory_limit` bytes."""
    refuse_above(
        check_limit(memory_limit),
        estimate(left, right, method),
        f"a dense kernel of {left.rows} x {(right or left).rows}",
        "take fewer points at a time, raise memory_limit, or use kernel_operator, which never builds it",
    )


def choose(left: Layout, right: Layout | None, method: Method) -> Method:
    """Return the method that will run: `auto` becomes the fastest for these sizes."""
    check_choice("method", method, get_args(Method))
    if method == "syrk" and right is not None:
        raise AttangentError("method 'syrk' needs X2=None, a symmetric kernel: use 'gemm', 'pairs' or 'auto'")
    if method != "auto":
        return method
    work = _work(left, right)
    if work >= _WORK_FOR_PAIRS and left.d_out >= _PAIRS_FROM[right is None]:
        return "pairs"
    return "syrk" if right is None and work >= _WORK_FOR_SYRK else "gemm"


def estimate(left: Layout, right: Layout | None, method: Method = "auto") -> float:
    """Estimate the bytes taken at the peak, not counting the network and the points themselves."""
    sums, temporary = _ALGORITHMS[choose(left, right, method)].entries(left, right)
    return float(_OVERHEAD + left.itemsize * (sums + temporary))


def _work(left: Layout, right: Layout | None) -> int:
    """Multiplications of one bare GEMM."""
    return left.rows * (right or left).rows * left.m
