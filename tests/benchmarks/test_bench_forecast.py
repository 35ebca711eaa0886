import numpy as np

from benchmarks.suites.forecast.bench_forecast import BENCHMARKS, ETT, nlinear, series

TINY = {"T": 120, "channels": 2, "L": 8, "H": 3}


def test_every_contestant_of_the_same_work_gives_the_same_forecast():
    (benchmark,) = BENCHMARKS
    expected = benchmark.reference(TINY)
    assert expected.shape == (5, 3, 2)
    for contestant in benchmark.contestants:
        if contestant.same_work:
            np.testing.assert_allclose(contestant.build(TINY)(), expected, rtol=1e-6, atol=1e-8)


def test_nlinear_runs_on_the_same_series():
    assert nlinear(TINY)().predict(series(TINY)[:8]).shape == (3, 2)


def test_the_size_of_the_goals_is_run():
    (benchmark,) = BENCHMARKS
    assert ETT in benchmark.sizes
