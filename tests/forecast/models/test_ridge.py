import numpy as np

from attangent.forecast.models.ridge import JITTER, Moments, RidgePath
from attangent.forecast.models.statistics import window_sums
from tests.forecast.examples import waves


def path_and_windows(series, L, H):
    sums = window_sums(series, L + H)
    path = RidgePath.of(Moments.about(np.zeros(L + H), sums, L))
    windows = np.lib.stride_tricks.sliding_window_view(series, L + H)
    return path, windows[:, :L], windows[:, L:]


def test_weights_solve_the_normal_equations():
    path, x, y = path_and_windows(waves(300, 1)[:, 0], 10, 3)
    for alpha in (0.0, 0.1, 10.0):
        penalty = (alpha + JITTER) * np.trace(x.T @ x / len(x)) / 10
        W = np.linalg.solve(x.T @ x / len(x) + penalty * np.eye(10), x.T @ y / len(x))
        np.testing.assert_allclose(path.weights(alpha), W, rtol=1e-6, atol=1e-8)


def test_errors_from_sums_are_those_of_the_windows():
    L, H, series = 10, 3, waves(300, 1)[:, 0]
    path, _, _ = path_and_windows(series, L, H)
    other = waves(200, 1, noise=0.4, seed=1)[:, 0]
    windows = np.lib.stride_tricks.sliding_window_view(other, L + H)
    alphas = np.array([0.0, 1e-3, 1.0])
    found = path.errors(alphas, path.held_out(window_sums(other, L + H)))
    slow = [np.square(windows[:, :L] @ path.weights(a) - windows[:, L:]).mean() for a in alphas]
    np.testing.assert_allclose(found, slow, rtol=1e-9)
