"""Choice of algorithm, and memory that is said before it is taken."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from attangent import AttangentError
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.kernels.gram import choose, estimate
from attangent.papers.p1_prefix.network import PrefixNetwork


def layout(d_out, points=8, network=SoftmaxNetwork):
    X, _ = unit_data(points, 3, 1, seed=0)
    return network(3, d_out, 16).tangent(X).layout


def test_auto_takes_what_is_fastest_for_the_size():
    few, many = (replace(layout(outputs), points=64, m=65536) for outputs in (2, 16))
    assert choose(few, None, "auto") == "syrk"
    assert choose(few, few, "auto") == "gemm"
    assert choose(many, None, "auto") == "pairs"
    assert choose(many, many, "auto") == "pairs"
    assert choose(many, None, "gemm") == "gemm"
    assert choose(layout(16), None, "auto") == "gemm"  # too small for anything clever
    assert choose(replace(many, m=64), None, "auto") == "syrk"


def test_a_kernel_that_does_not_fit_is_refused_before_the_work():
    X, _ = unit_data(1250, 16, 16, seed=0)
    network = PrefixNetwork(16, 4096)
    with pytest.raises(AttangentError, match=r"20000 x 20000 would take \d.*GiB but memory_limit is 2 GiB"):
        network.kernel(X)
    assert network.kernel_operator(X).shape == (20_000, 20_000)


@pytest.mark.parametrize("method", ["gemm", "syrk", "pairs"])
def test_the_estimate_covers_the_result(method):
    sizes = replace(layout(8), points=100)
    assert estimate(sizes, None, method) >= 800 * 800 * 8


MEASURE = """
import sys, torch
from pathlib import Path
from attangent.papers.p1_prefix.network import PrefixNetwork
from attangent.kernels import unit_data
from attangent.kernels.gram import estimate
torch.set_num_threads(1)
def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])
for method in ("gemm", "syrk", "pairs"):
    for cross in (False, True):
        if cross and method == "syrk":
            continue
        network = PrefixNetwork(8, 2048)
        X, _ = unit_data(200, 8, 8, 0)
        X2 = unit_data(170, 8, 8, 1)[0] if cross else None
        network.kernel(X[:9], None if X2 is None else X2[:9], method=method)
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmRSS")
        kernel = network.kernel(X, X2, method=method)
        peak = status("VmHWM") - before
        del kernel
        said = estimate(network.tangent(X).layout, None if X2 is None else network.tangent(X2).layout, method)
        print(method, cross, peak, said)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_memory_taken_is_what_was_said():
    settings = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, env=settings
    )
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert len(lines) == 5
    for method, cross, peak, said in lines:
        assert 0.4 * float(said) <= float(peak) <= float(said), (method, cross)


def test_sums_do_not_depend_on_the_tangent_being_held():
    X, _ = unit_data(5, 3, 1, seed=0)
    network = SoftmaxNetwork(3, 7, 300, init="independent")
    tangent = network.tangent(X)
    assert torch.equal(tangent.held().features(slice(0, 300)), tangent.features(slice(0, 300)))


def test_jobs_are_deprecated():
    X, _ = unit_data(6, 3, 1, seed=0)
    network = SoftmaxNetwork(3, 2, 64)
    with pytest.warns(FutureWarning, match="set_num_threads"):
        assert torch.equal(network.kernel(X, jobs=2), network.kernel(X))
