"""The benchmark of this room: every way reaches the target it is timed for, at a size for tests."""

import pytest

from benchmarks.suites.icl.bench_icl import BENCHMARKS, CONTESTANTS, PAPER

TINY = {"N": 5, "K": 8, "d": 6, "m": 3, "H": 10}


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
def test_every_contestant_reaches_the_target_again_and_again(contestant):
    work = contestant.build(TINY)
    assert work().tolist() == work().tolist() == [1.0]


def test_the_size_of_the_paper_is_run():
    (benchmark,) = BENCHMARKS
    assert PAPER in benchmark.sizes
    assert PAPER == {"N": 30, "K": 200, "d": 100, "m": 20, "H": 64}
