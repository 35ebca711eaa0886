import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.forecast import SeriesForecaster
from attangent.forecast.pipeline.hierarchy import mint, shrinkage

RNG = np.random.default_rng(0)
A = np.array([[1.0, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])


def table(**changes):
    """Two regions with two and three shops; one shop opened late."""
    frames = []
    for k, (region, shop) in enumerate([("n", "a"), ("n", "b"), ("s", "a"), ("s", "c"), ("s", "d")]):
        days = pd.date_range("2024-01-01", periods=60)[20 if k == 4 else 0 :]
        y = 20 + 5 * k + 3 * (days.day_of_week == 5) + RNG.normal(size=len(days))
        columns = {"unique_id": f"{region}-{shop}", "ds": days, "y": y, "region": region, "shop": shop}
        frames.append(pd.DataFrame(columns | changes))
    return pd.concat(frames)


@pytest.mark.parametrize("method", ["mint", "bottom-up"])
def test_totals_equal_the_sums_of_their_parts(method):
    forecaster = SeriesForecaster(hierarchy=["region", "shop"], reconcile=method)
    wide = forecaster.fit(table()).predict(7).pivot(index="ds", columns="unique_id", values="attangent")
    assert set(wide) == {"n-a", "n-b", "s-a", "s-c", "s-d", "total", "total/n", "total/s"}
    np.testing.assert_allclose(wide["total/n"], wide[["n-a", "n-b"]].sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(wide["total/s"], wide[["s-a", "s-c", "s-d"]].sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(wide["total"], wide["total/n"] + wide["total/s"], rtol=1e-13)
    alone = SeriesForecaster().fit(table()).predict(7)
    assert np.abs(wide["n-a"].to_numpy() - alone.attangent[:7]).max() < 2


def test_cross_validation_adds_up_too_and_knows_the_totals_that_followed():
    frame = table()
    found = SeriesForecaster(hierarchy=["region"]).cross_validation(frame, 5)
    true = found.pivot(index="ds", columns="unique_id", values="y")
    expected = frame.groupby("ds").y.sum()[-5:]
    np.testing.assert_allclose(true["total"], expected)
    wide = found.pivot(index="ds", columns="unique_id", values="attangent")
    np.testing.assert_allclose(wide["total"], wide["total/n"] + wide["total/s"])


def test_mint_is_the_weighted_projection_of_its_definition():
    errors = RNG.normal(size=(8, 30)) * np.arange(1, 9)[:, None]
    forecasts = RNG.normal(size=(8, 4))
    S = np.vstack((np.eye(5), A))
    spread = np.square(errors).mean(axis=1)
    k = shrinkage(errors / np.sqrt(spread)[:, None])
    assert 0 < k < 1
    W = k * np.diag(spread) + (1 - k) * errors @ errors.T / 30
    inverse = np.linalg.inv(W)
    expected = S @ np.linalg.solve(S.T @ inverse @ S, S.T @ inverse @ forecasts)
    np.testing.assert_allclose(mint(forecasts, A, errors), expected, rtol=1e-7)


def test_shrinkage_by_its_definition():
    z = RNG.normal(size=(4, 20)) + RNG.normal(size=20)
    z /= np.sqrt(np.square(z).mean(axis=1, keepdims=True))
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    products = {(i, j): z[i] * z[j] for i, j in pairs}
    variance = sum(np.square(w - w.mean()).sum() / 19**2 for w in products.values())
    assert shrinkage(z) == pytest.approx(variance / sum(w.mean() ** 2 for w in products.values()))


def test_coherent_forecasts_stay_and_a_sure_total_pulls_its_parts():
    parts = RNG.normal(size=(5, 3))
    coherent = np.vstack((parts, A @ parts))
    errors = RNG.normal(size=(8, 30))
    np.testing.assert_allclose(mint(coherent, A, errors), coherent)
    errors[5] *= 1e-4
    other = coherent.copy()
    other[5] += 1
    np.testing.assert_allclose(mint(other, A, errors)[5], other[5], atol=1e-3)


@pytest.mark.parametrize(
    ("frame", "level", "message"),
    [
        (table(), "country", "no column 'country'"),
        (table().assign(region=lambda f: f.ds.dt.month.astype(str)), "region", "one value per"),
        (table().assign(unique_id=lambda f: f.unique_id.replace("n-a", "total")), "region", "rename"),
        (table().iloc[:-1], "region", "must end together"),
    ],
)
def test_what_cannot_add_up_is_refused_when_it_is_read(frame, level, message):
    with pytest.raises(AttangentError, match=message):
        SeriesForecaster(hierarchy=[level]).fit(frame)


def test_covariates_are_refused():
    with pytest.raises(AttangentError, match="either a hierarchy or covariates"):
        SeriesForecaster(hierarchy=["region"], covariates=["price"])
