"""Kernel matrices J J'/width from tangents: one call that picks the algorithm and streams over neurons.

In units of one bare GEMM (rows x m)(m x rows), rows = points x outputs:

| method | multiplications                | wins                              |
|--------|--------------------------------|-----------------------------------|
| gemm   | 1                              | test-train, few outputs           |
| syrk   | 9/16, upper blocks only        | train-train, few outputs          |
| pairs  | 1/4 (1/2 for test-train)       | many outputs                      |

`pairs` multiplies products of gates, one row per pair of points, with products of values, one row per pair
of outputs: both kinds of pairs are unordered, hence the quarter. docs/kernels.md has measurements.
"""

import multiprocessing
import threading
import warnings
from collections.abc import Iterable
from typing import Literal, Protocol, cast, get_args, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError
from attangent.kernels.checks import check_limit, refuse_above
from attangent.kernels.gram_algorithms import Gemm, Pairs, Syrk
from attangent.kernels.tangent import Layout, Tangent, blocks

Method = Literal["auto", "gemm", "syrk", "pairs"]
_SPANS = 8
"""Number of spans of neurons into which work for several workers is cut."""
_MOST_JOBS = 4096
_OVERHEAD = 32 * 2**20
"""Bytes for stored gates and for the buffers of the BLAS."""
_WORK_FOR_SYRK = 2**25
_WORK_FOR_PAIRS = 2**27
"""Multiplications below which the bookkeeping of the cleverer algorithms costs more than it saves."""
_WORK_FOR_PROCESSES = 2**35
"""Multiplications that take a core longer than starting workers that import torch."""
_PAIRS_FROM = {True: 6, False: 8}
"""Number of outputs from which `pairs` is fastest, for symmetric and for test-train kernels."""


@runtime_checkable
class Algorithm(Protocol):
    """A kernel algorithm: sums over neurons, which add up over spans, then a finish without neurons."""

    def sums(self, left: Tangent, right: Tangent | None) -> list[Tensor]: ...
    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor: ...
    def entries(self, left: Layout, right: Layout | None) -> tuple[int, int]:
        """Return how many numbers the sums hold, and how many more exist at the peak."""
        ...


_ALGORITHMS: dict[str, Algorithm] = {"gemm": Gemm(), "syrk": Syrk(), "pairs": Pairs()}


def gram(
    left: Tangent, right: Tangent | None, method: Method = "auto", jobs: int | None = 1
) -> Float[Tensor, "rows columns"]:
    """Compute K (rows of left, rows of right) in output-major order; `right=None` is the symmetric case.

    With `jobs` other than 1, spans of neurons go to joblib's workers; `joblib.parallel_config` chooses which
    kind (a Dask cluster for example). If it does not, a kernel too small for processes is computed in this
    process, with a warning.
    """
    right_layout = None if right is None else right.layout
    algorithm = _ALGORITHMS[choose(left.layout, right_layout, method)]
    alone = jobs == 1 or _too_small(left.layout, right_layout, jobs)
    sums = algorithm.sums(left, right) if alone else _spread(algorithm, left, right, jobs)
    return algorithm.finish(left, right, sums)


def check_kernel_memory(
    left: Layout, right: Layout | None, method: Method, memory_limit: float, jobs: int | None = 1
) -> None:
    """Raise an AttangentError if a kernel of these sizes would take more than `memory_limit` bytes."""
    refuse_above(
        check_limit(memory_limit),
        estimate(left, right, method, jobs),
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


def estimate(left: Layout, right: Layout | None, method: Method = "auto", jobs: int | None = 1) -> float:
    """Estimate the bytes taken at the peak, not counting the network and the points themselves."""
    sums, temporary = _ALGORITHMS[choose(left, right, method)].entries(left, right)
    # With workers, a result is received while the running total exists.
    copies = 1 if jobs == 1 else 2
    return float(_OVERHEAD + left.itemsize * (copies * sums + temporary))


def _work(left: Layout, right: Layout | None) -> int:
    """Multiplications of one bare GEMM."""
    return left.rows * (right or left).rows * left.m


def _too_small(left: Layout, right: Layout | None, jobs: int | None) -> bool:
    """Return whether starting processes would cost more than it saves, and warn if so."""
    from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

    if jobs is not None and (jobs == 0 or not -_MOST_JOBS <= jobs <= _MOST_JOBS):
        raise AttangentError(f"jobs is {jobs}, expected 1 to {_MOST_JOBS} workers, or -1 for one per core")
    backend, _ = get_active_backend()
    # A backend that the user chose (threads, a cluster) is running already, so that any size may use it.
    if type(backend) is not BACKENDS[DEFAULT_BACKEND] or _work(left, right) >= _WORK_FOR_PROCESSES:
        return False
    warnings.warn(
        f"jobs={jobs} is not used: starting workers takes longer than this kernel, use jobs=1 (joblib's "
        "parallel_config chooses other workers, threads or a cluster, for kernels of any size)",
        RuntimeWarning,
        stacklevel=4,
    )
    return True


def _spread(algorithm: Algorithm, left: Tangent, right: Tangent | None, jobs: int | None) -> list[Tensor]:
    """Compute the sums with spans of neurons on joblib's workers."""
    from joblib import Parallel, delayed

    spans = list(blocks(left.m, -(-left.m // _SPANS)))
    tasks = (
        delayed(algorithm.sums)(left.restricted(span), None if right is None else right.restricted(span))
        for span in spans
    )
    total: list[Tensor] = []
    nested = {"backend": "threading"} if _is_inside_a_pool() else {}
    results = cast(Iterable[list[Tensor]], Parallel(n_jobs=jobs, return_as="generator", **nested)(tasks))
    # Always _SPANS spans, added in their order: the result does not depend on the number of workers.
    for sums in results:
        total = [have.add_(more) for have, more in zip(total, sums, strict=True)] if total else sums
    return total


def _is_inside_a_pool() -> bool:
    """Return whether this code runs in a worker: processes started from there could deadlock."""
    in_thread = threading.current_thread() is not threading.main_thread()
    return in_thread or multiprocessing.parent_process() is not None
