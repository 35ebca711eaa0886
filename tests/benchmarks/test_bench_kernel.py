import torch

from benchmarks.harness.benchmark import Contestant
from benchmarks.suites.kernels.bench_kernel import BENCHMARKS, LARGE, bare_gemm, closed_form, vmap_jacrev

TINY = {"n": 3, "d": 2, "m": 8}


def test_every_contestant_of_the_same_work_gives_the_kernel():
    (benchmark,) = BENCHMARKS
    expected = closed_form(TINY)()
    assert expected.shape == (6, 6)
    for contestant in benchmark.contestants:
        if contestant.same_work and isinstance(contestant, Contestant):
            assert torch.allclose(contestant.build(TINY)(), expected, rtol=1e-12)
    assert torch.allclose(vmap_jacrev(TINY)(), expected, rtol=1e-12)


def test_the_yardstick_has_the_shape_of_the_kernel():
    assert bare_gemm(TINY)().shape == (6, 6)


def test_the_size_of_the_goals_is_run():
    (benchmark,) = BENCHMARKS
    assert LARGE == {"n": 64, "d": 16, "m": 4096}
    assert LARGE in benchmark.sizes
