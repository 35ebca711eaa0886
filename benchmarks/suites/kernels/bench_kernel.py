"""The tangent kernel of SoftmaxNetwork against torch.func, neural-tangents and a bare matrix product.

To add a contestant: a function of a size that returns the callable to be timed, and a line in CONTESTANTS.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from attangent._core.random import generator
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.kernels.gram import Method
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Work
from benchmarks.suites.kernels.neural_tangents import Arrays, neural_tangents

SMALL = {"n": 16, "d": 8, "m": 1024}
LARGE = {"n": 64, "d": 16, "m": 4096}


def network_and_points(size: Size) -> tuple[SoftmaxNetwork, Tensor]:
    """The network and the points that every contestant of a size works on; d_in = d_out = d."""
    d = size["d"]
    X, _ = unit_data(size["n"], d, d, seed=0)
    return SoftmaxNetwork(d, d, size["m"], seed=0), X


def bare_gemm(size: Size) -> Work:
    """One product (nd, m)(m, nd) in float64, with nothing around it."""
    rows, m = size["n"] * size["d"], size["m"]
    rng = generator(0, "gemm")
    left = torch.randn(rows, m, generator=rng, dtype=torch.float64)
    right = torch.randn(m, rows, generator=rng, dtype=torch.float64)
    return lambda: left @ right


def closed_form(size: Size) -> Work:
    network, X = network_and_points(size)
    return lambda: network.kernel(X)


def vmap_jacrev(size: Size) -> Work:
    """The whole Jacobian by reverse mode, then J J'/m, in the order of `SoftmaxNetwork.kernel`."""
    network, X = network_and_points(size)

    def output(W: Tensor, x: Tensor) -> Tensor:
        return network.m * network.a @ torch.softmax(x @ W, dim=0)

    jacobians = vmap(jacrev(output), in_dims=(None, 0))

    def kernel() -> Tensor:
        J = jacobians(network.W, X).flatten(0, 1).flatten(1)  # (n d_out, d_in m)
        H = (J @ J.T / network.m).unflatten(0, (size["n"], -1)).unflatten(2, (size["n"], -1))
        return H.permute(1, 0, 3, 2).flatten(0, 1).flatten(1)  # from (i, l, j, l') to (l i, l' j)

    return kernel


def by_method(method: Method) -> Callable[[Size], Work]:
    """One of the algorithms behind `kernel`."""

    def build(size: Size) -> Work:
        network, X = network_and_points(size)
        return lambda: network.kernel(X, method=method)

    return build


def arrays(size: Size) -> Arrays:
    network, X = network_and_points(size)
    return {"X": X.numpy(), "W": network.W.numpy(), "a": network.a.numpy()}


CONTESTANTS = [
    Contestant("gemm", bare_gemm, same_work=False),
    Contestant("attangent", closed_form),
    Contestant("attangent, syrk", by_method("syrk")),
    Contestant("attangent, gemm", by_method("gemm")),
    Contestant("vmap(jacrev)", vmap_jacrev),
    neural_tangents("neural-tangents, structured", "STRUCTURED_DERIVATIVES", "softmax", arrays),
    neural_tangents("neural-tangents, default", "JACOBIAN_CONTRACTION", "softmax", arrays),
]

BENCHMARKS = [
    Benchmark(
        name="kernel",
        about="The exact tangent kernel (nd, nd) of a softmax network of width m, float64, at n points with "
        "d inputs and d outputs. The baseline is one bare product (nd, m)(m, nd).",
        sizes=[SMALL, LARGE],
        contestants=CONTESTANTS,
        baseline="gemm",
        reference=lambda size: vmap_jacrev(size)(),
        goals=[
            Goal("attangent", against="gemm", size=LARGE, at_most=0.65),
            Goal("attangent", against="vmap(jacrev)", size=LARGE, at_most=1 / 30),
            Goal("attangent", against="neural-tangents, structured", size=LARGE, at_most=1 / 3),
            Goal("attangent", against="neural-tangents, default", size=LARGE, at_most=1 / 3),
        ],
    )
]
