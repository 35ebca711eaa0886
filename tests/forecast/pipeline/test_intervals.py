import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attangent.forecast.pipeline import intervals
from attangent.forecast.pipeline.intervals import Residuals, error_quantiles

P = np.array([0.025, 0.1, 0.5, 0.9, 0.975])


def quantiles_of(residuals, period, probabilities, lengths):
    """Quantiles from residuals that all belong to the first series, of models that agree equally."""
    past = Residuals(residuals, np.ones_like(residuals), np.zeros(len(residuals), dtype=int))
    ahead = np.ones((len(lengths), residuals.shape[1]))
    return error_quantiles(past, ahead, period, probabilities, lengths)


def errors(rows, steps=6, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, steps)) * np.sqrt(np.arange(1, steps + 1))


@pytest.mark.parametrize("rows", [60, 2000])
def test_exchangeable_errors_are_covered_as_often_as_is_said(rows):
    q = quantiles_of(errors(rows), 1, P, np.array([50]))[0]
    new = errors(20_000, seed=1)
    assert ((q[:, 1] <= new) & (new <= q[:, 3])).mean() == pytest.approx(0.8, abs=0.03)
    assert ((q[:, 0] <= new) & (new <= q[:, 4])).mean() == pytest.approx(0.95, abs=0.02)


def test_intervals_are_wide_where_models_disagree_and_cover_as_often():
    apart = np.random.default_rng(2).choice([0.1, 3.0], size=(2000, 6))
    rows = errors(2000) * apart**0.4
    past = Residuals(rows, apart, np.arange(2000) % 2)
    ahead = np.repeat([[0.1], [3.0]], 6, axis=1)
    q = error_quantiles(past, ahead, 1, P, np.full(2, 50))
    new = errors(20_000, seed=1)
    for k, size in enumerate((0.1, 3.0)):
        inside = (q[k, :, 1] <= new * size**0.4) & (new * size**0.4 <= q[k, :, 3])
        assert inside.mean() == pytest.approx(0.8, abs=0.03)


def test_steps_that_were_never_held_back_grow_like_a_random_walk():
    known = errors(2000, 12)
    known[:, 5:] = np.nan
    q = quantiles_of(known, 1, P, np.array([50]))[0]
    new = errors(20_000, 12, seed=1)
    assert ((q[:, 1] <= new) & (new <= q[:, 3])).mean() == pytest.approx(0.8, abs=0.03)
    np.testing.assert_allclose(q[11], q[4] * np.sqrt(12 / 5))


def test_errors_that_lean_to_one_side_at_few_origins_do_not_lean_the_intervals():
    q = quantiles_of(np.abs(errors(200)), 1, P, np.array([50]))[0]
    np.testing.assert_allclose(q, -q[:, ::-1], atol=1e-9)


@pytest.mark.parametrize("rows", [0, 1, 5, 100])
def test_quantiles_never_cross_and_widen_with_the_step(rows):
    q = quantiles_of(errors(rows), 1, P, np.array([30, 4]))
    assert (np.diff(q, axis=2) >= 0).all()
    assert (np.diff(q[:, :, 4] - q[:, :, 0], axis=1) >= 0).all()


def test_few_errors_and_short_series_give_wider_intervals():
    few, many = (quantiles_of(errors(n), 1, P, np.array([30]))[0, -1, 4] for n in (3, 3000))
    assert few > many
    nothing = quantiles_of(np.empty((0, 3)), 1, P, np.array([40, 3]))
    assert nothing[1, 0, 4] > 1.5 * nothing[0, 0, 4]


def test_a_spread_of_few_errors_is_shrunk_towards_the_usual_one():
    from scipy.stats import t

    q = quantiles_of(np.array([[0.2, 0.4, np.nan]]), 4, P, np.array([30]))[0]
    growth = np.sqrt(np.array([1, 2, 3]) + 1.5)
    own, freedom = [(0.2 / growth[0]) ** 2, (0.4 / growth[1]) ** 2], 4 + 2 / 6
    variance = (4 * (1.5 * 4**-0.6) ** 2 + sum(own) / 6) / freedom
    np.testing.assert_allclose(q, np.sqrt(variance) * growth[:, None] * t.ppf(P, freedom), atol=1e-12)
    assert q[0, 4] > 5 * 0.2  # two lucky forecasts do not make a narrow interval


def test_series_that_were_forecast_exactly_have_narrow_intervals():
    exact, unknown = (quantiles_of(rows, 1, P, np.array([30]))[0] for rows in (errors(1) / 1e6, errors(0)))
    assert exact[-1, 4] < 1e-4 < unknown[-1, 4]


def test_steps_that_nothing_is_known_of_are_covered_too():
    partly = errors(200)
    partly[:, 3:] = np.nan
    q = quantiles_of(partly, 1, P, np.array([30]))[0]
    assert np.isfinite(q).all()
    assert q[5, 4] > q[2, 4]


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(0.01, 100)))
def test_sizes_that_never_fall_are_those_of_scikit_learn(sizes):
    from sklearn.isotonic import isotonic_regression

    np.testing.assert_allclose(intervals._growing(sizes), isotonic_regression(sizes), rtol=1e-9)


@pytest.mark.parametrize(("power", "flat"), [(0.0, True), (1.0, False)])
def test_long_series_tell_how_errors_grow(power, flat):
    steps = np.sqrt(np.arange(1, 41))
    rows = np.random.default_rng(0).normal(size=(3, 40)) * steps**power
    q = quantiles_of(rows, 1, P, np.array([500]))[0]
    assert (q[-1, 4] < 1.5 * q[0, 4]) == flat
    short = quantiles_of(rows, 1, P, np.array([100]))[0]
    assert short[-1, 4] > 6 * short[0, 4]
