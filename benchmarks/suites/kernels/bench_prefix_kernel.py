"""The exact tangent kernel of PrefixNetwork against torch.func, neural-tangents and a bare matrix product.

The structured implementation of neural-tangents is left out: on this network, whose weights enter twice, it
took 8 GiB and ten thousand times the baseline at the small size already.
"""

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from attangent.kernels import unit_data
from attangent.papers.p1_prefix.network import PrefixNetwork
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Work
from benchmarks.suites.kernels.bench_kernel import LARGE, SMALL, bare_gemm
from benchmarks.suites.kernels.neural_tangents import Arrays, neural_tangents


def network_and_points(size: Size) -> tuple[PrefixNetwork, Tensor]:
    """The network and the points that every contestant of a size works on."""
    X, _ = unit_data(size["n"], size["d"], size["d"], seed=0)
    return PrefixNetwork(size["d"], size["m"], seed=0), X


def closed_form(size: Size) -> Work:
    network, X = network_and_points(size)
    return lambda: network.kernel(X)


def paper_form(size: Size) -> Work:
    """The kernel of Definition G.1, which is other work: it lacks the value part."""
    network, X = network_and_points(size)
    return lambda: network.kernel(X, kind="paper")


def vmap_jacrev(size: Size) -> Work:
    """The whole Jacobian by reverse mode, then J J'/m, in the order of `PrefixNetwork.kernel`."""
    network, X = network_and_points(size)

    def output(W: Tensor, x: Tensor) -> Tensor:
        return network.m * (W * network.a) @ torch.softmax(x @ W, dim=0)

    jacobians = vmap(jacrev(output), in_dims=(None, 0))

    def kernel() -> Tensor:
        J = jacobians(network.W, X).transpose(0, 1).flatten(0, 1).flatten(1)  # (d n, d m)
        return J @ J.T / network.m

    return kernel


def arrays(size: Size) -> Arrays:
    network, X = network_and_points(size)
    return {"X": X.numpy(), "W": network.W.numpy(), "a": network.a.numpy()}


BENCHMARKS = [
    Benchmark(
        name="prefix-kernel",
        about="The exact tangent kernel (nd, nd) of a prefix network of length m (P1), float64, at n points. "
        "The baseline is one bare product (nd, m)(m, nd).",
        sizes=[SMALL, LARGE],
        contestants=[
            Contestant("gemm", bare_gemm, same_work=False),
            Contestant("attangent", closed_form),
            Contestant("attangent, as printed", paper_form, same_work=False),
            Contestant("vmap(jacrev)", vmap_jacrev),
            neural_tangents("neural-tangents, default", "JACOBIAN_CONTRACTION", "prefix", arrays),
        ],
        baseline="gemm",
        reference=lambda size: vmap_jacrev(size)(),
        goals=[
            Goal("attangent", against="gemm", size=LARGE, at_most=0.75),
            Goal("attangent", against="vmap(jacrev)", size=LARGE, at_most=1 / 30),
            Goal("attangent", against="neural-tangents, default", size=LARGE, at_most=1 / 3),
        ],
    )
]
