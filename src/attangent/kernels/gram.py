"""Kernel matrices J J'/width from tangents: three algorithms behind one call, streamed over neurons.

In units of one bare GEMM (rows x m)(m x rows), rows = points x outputs:

| method | multiplications                | wins                              |
|--------|--------------------------------|-----------------------------------|
| gemm   | 1                              | test-train, few outputs           |
| syrk   | 9/16, upper blocks only        | train-train, few outputs          |
| pairs  | 1/4 (1/2 for test-train)       | many outputs                      |

`pairs` multiplies products of gates, one row for each pair of points, with products of values, one row for
each pair of outputs: both kinds of pairs are unordered, hence the quarter. docs/kernels.md has measurements.
"""

import multiprocessing
import threading
import warnings
from collections.abc import Iterable
from typing import Literal, Protocol, cast, get_args

from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.kernels.factors import blocks
from attangent.kernels.gram_dense import Gemm, Syrk
from attangent.kernels.gram_pairs import Pairs
from attangent.kernels.memory import check_limit, refuse_above
from attangent.kernels.tangent import Layout, Tangent

Method = Literal["auto", "gemm", "syrk", "pairs"]
_SPANS = 8
"""Into how many spans of neurons the work is cut when it is spread over workers."""
_MOST_JOBS = 4096
_OVERHEAD = 32 * 2**20
"""Bytes for gates that are held and for the buffers of the BLAS."""
_WORK_FOR_SYRK, _WORK_FOR_PAIRS = 2**25, 2**27
"""Multiplications below which what the cleverer algorithms do around their products is not worth it."""
_WORK_FOR_PROCESSES = 2**35
"""Multiplications that take a core longer than starting workers which import torch: see docs/scale.md."""
_PAIRS_FROM = {True: 6, False: 8}
"""The number of outputs from which `pairs` is fastest, for symmetric and for test-train kernels."""


class Algorithm(Protocol):
    """A way to a kernel: sums over neurons, which can be added from spans, then a finish without neurons."""

    def sums(self, left: Tangent, right: Tangent | None) -> list[Tensor]: ...
    def finish(self, left: Tangent, right: Tangent | None, sums: list[Tensor]) -> Tensor: ...
    def entries(self, left: Layout, right: Layout | None) -> tuple[int, int]:
        """Numbers held as sums, and at the peak beside them."""
        ...


_ALGORITHMS: dict[str, Algorithm] = {"gemm": Gemm(), "syrk": Syrk(), "pairs": Pairs()}


def gram(left: Tangent, right: Tangent | None, method: Method = "auto", jobs: int | None = 1) -> Tensor:
    """K (rows of left, rows of right) in output-major order; `right=None` is the symmetric case.

    With `jobs` other than 1 spans of neurons go to joblib's workers; `joblib.parallel_config` says which
    kind, a Dask cluster for example. Unless it does, a kernel too small for processes is computed here, with
    a warning that says so.
    """
    sizes = left.layout, None if right is None else right.layout
    algorithm = _ALGORITHMS[choose(*sizes, method)]
    alone = jobs == 1 or _too_small(*sizes, _checked_jobs(jobs))
    sums = algorithm.sums(left, right) if alone else _spread(algorithm, left, right, jobs)
    return algorithm.finish(left, right, sums)


def check_memory(
    left: Layout, right: Layout | None, method: Method, memory_limit: float, jobs: int | None = 1
) -> None:
    """Refuse a kernel of these sizes if it would take more than `memory_limit` bytes."""
    refuse_above(
        check_limit(memory_limit),
        estimate(left, right, method, jobs),
        f"a dense kernel of {left.rows} x {(right or left).rows}",
        "take fewer points at a time, raise memory_limit, or use kernel_operator, which never builds it",
    )


def choose(left: Layout, right: Layout | None, method: Method) -> Method:
    """The method that will run: `auto` takes the fastest for this size."""
    if method not in get_args(Method):
        raise AttangentError(f"method is {method!r}, expected one of {', '.join(get_args(Method))}")
    if method == "syrk" and right is not None:
        raise AttangentError("method 'syrk' needs X2=None, a symmetric kernel: use 'gemm', 'pairs' or 'auto'")
    if method != "auto":
        return method
    work = _work(left, right)
    if work >= _WORK_FOR_PAIRS and left.d_out >= _PAIRS_FROM[right is None]:
        return "pairs"
    return "syrk" if right is None and work >= _WORK_FOR_SYRK else "gemm"


def _work(left: Layout, right: Layout | None) -> int:
    """Multiplications of one bare GEMM."""
    return left.rows * (right or left).rows * left.m


def _checked_jobs(jobs: int | None) -> int | None:
    if jobs is not None and (jobs == 0 or not -_MOST_JOBS <= jobs <= _MOST_JOBS):
        raise AttangentError(
            f"jobs is {jobs}, expected 1 to {_MOST_JOBS} workers, or -1 for one on each core"
        )
    return jobs


def _too_small(left: Layout, right: Layout | None, jobs: int | None) -> bool:
    """Whether processes would have to be started for less than they cost; warns if so."""
    from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

    given, _ = get_active_backend()
    if type(given) is not BACKENDS[DEFAULT_BACKEND] or _work(left, right) >= _WORK_FOR_PROCESSES:
        return False
    warnings.warn(
        f"jobs={jobs} is not used: starting workers takes longer than this kernel, use jobs=1 (joblib's "
        "parallel_config chooses other workers, threads or a cluster, for kernels of any size)",
        RuntimeWarning,
        stacklevel=4,
    )
    return True


def estimate(left: Layout, right: Layout | None, method: Method = "auto", jobs: int | None = 1) -> float:
    """Bytes that will be taken at the peak, beside the network and the points themselves."""
    sums, beside = _ALGORITHMS[choose(left, right, method)].entries(left, right)
    copies = 1 if jobs == 1 else 2
    return float(_OVERHEAD + left.itemsize * (copies * sums + beside))


def _spread(algorithm: Algorithm, left: Tangent, right: Tangent | None, jobs: int | None) -> list[Tensor]:
    """The sums with spans of neurons on joblib's workers, added in the order of the spans."""
    from joblib import Parallel, delayed

    spans = list(blocks(left.m, -(-left.m // _SPANS)))
    tasks = (
        delayed(algorithm.sums)(left.part(span), None if right is None else right.part(span))
        for span in spans
    )
    total: list[Tensor] = []
    nested = {"backend": "threading"} if _is_inside_a_pool() else {}
    results = cast(Iterable[list[Tensor]], Parallel(n_jobs=jobs, return_as="generator", **nested)(tasks))
    for sums in results:
        total = [have.add_(more) for have, more in zip(total, sums, strict=True)] if total else sums
    return total


def _is_inside_a_pool() -> bool:
    """Whether somebody spreads work already, by processes or threads: processes of ours could wait for each
    other there."""
    in_thread = threading.current_thread() is not threading.main_thread()
    return in_thread or multiprocessing.parent_process() is not None
