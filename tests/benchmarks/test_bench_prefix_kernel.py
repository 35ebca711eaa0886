import torch

from benchmarks.harness.benchmark import Contestant
from benchmarks.suites.kernels.bench_kernel import LARGE
from benchmarks.suites.kernels.bench_kernel_memory import BENCHMARKS as MEMORY
from benchmarks.suites.kernels.bench_prefix_kernel import BENCHMARKS, closed_form, paper_form, vmap_jacrev

TINY = {"n": 3, "d": 2, "m": 8}


def test_every_contestant_of_the_same_work_gives_the_exact_kernel():
    (benchmark,) = BENCHMARKS
    expected = closed_form(TINY)()
    for contestant in benchmark.contestants:
        if contestant.same_work and isinstance(contestant, Contestant):
            torch.testing.assert_close(contestant.build(TINY)(), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(vmap_jacrev(TINY)(), expected, rtol=1e-12, atol=1e-12)


def test_the_printed_kernel_is_other_work():
    assert not torch.allclose(paper_form(TINY)(), closed_form(TINY)())


def test_goals_are_at_the_sizes_asked_for():
    (benchmark,) = BENCHMARKS
    assert {goal.at_most for goal in benchmark.goals if goal.against == "gemm" and goal.size == LARGE} == {
        0.75
    }
    (memory,) = MEMORY
    assert [size["m"] for size in memory.sizes] == [2**14, 2**18]
    assert all(goal.at_most == 1.2 and goal.of == "peak_bytes" for goal in memory.goals)
