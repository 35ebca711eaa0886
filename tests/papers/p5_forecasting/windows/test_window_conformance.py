"""One conformance suite for every forecaster: a new one is a line in MAKERS."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

from attangent import AttangentError
from attangent.papers.p5_forecasting.deep.attention_forecasters import (
    Autoformer,
    Encoder,
    Informer,
    InvertedTransformer,
    PatchTST,
    VanillaTransformer,
)
from attangent.papers.p5_forecasting.deep.training import DLinear, NLinear, RLinear, Training
from attangent.papers.p5_forecasting.windows.forecaster import LinearForecaster, Persistence, SeasonalNaive
from tests.forecast.examples import waves

SHORT = Training(epochs=2, batches=4, rate=1e-3)
TINY = Encoder(width=8, heads=2, layers=1)
ONE_HEAD = Encoder(width=8, heads=1, layers=1)

MAKERS = {
    "persistence": lambda: Persistence(24, 6),
    "seasonal": lambda: SeasonalNaive(24, 6, period=12),
    "linear": lambda: LinearForecaster(24, 6),
    "linear mean, per channel": lambda: LinearForecaster(24, 6, "mean", weights="channel"),
    "linear none": lambda: LinearForecaster(24, 6, "none"),
    "nlinear": lambda: NLinear(24, 6, SHORT),
    "dlinear": lambda: DLinear(24, 6, kernel=5, training=SHORT),
    "rlinear": lambda: RLinear(24, 6, SHORT),
    "transformer": lambda: VanillaTransformer(24, 6, TINY, SHORT),
    "itransformer": lambda: InvertedTransformer(24, 6, TINY, SHORT),
    "patchtst": lambda: PatchTST(24, 6, TINY, SHORT),
    "informer": lambda: Informer(24, 6, TINY, SHORT),
    "autoformer": lambda: Autoformer(24, 6, ONE_HEAD, SHORT),
}


CHECKS = (
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_mixin_order,
    estimator_checks.check_valid_tag_types,
)
"""Those of scikit-learn's checks that do not fit a table of rows, which a series is not."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_scikit_learns_own_checks(name, check):
    check(name, MAKERS[name]())


@pytest.fixture(params=MAKERS, scope="module")
def fitted(request):
    return MAKERS[request.param]().fit(waves(300))


def test_shapes(fitted):
    series = waves(300)
    assert fitted.predict(series[-24:]).shape == (6, 2)
    stack = np.stack([series[:24], series[5:29], series[9:33]])
    answers = fitted.predict(stack)
    assert answers.shape == (3, 6, 2)
    np.testing.assert_allclose(answers[1], fitted.predict(stack[1]), atol=1e-5)
    assert fitted.predict(stack[None]).shape == (1, 3, 6, 2)


def test_vectors_in_vectors_out(fitted):
    model = clone(fitted).fit(waves(300, 1)[:, 0])
    assert model.predict(waves(24, 1)[:, 0]).shape == (6,)
    assert model.predict(waves(48, 1)[:, 0].reshape(2, 24)).shape == (2, 6)


def test_the_same_fit_twice(fitted):
    again = clone(fitted).fit(waves(300))
    np.testing.assert_array_equal(again.predict(waves(24)), fitted.predict(waves(24)))
    assert repr(clone(fitted)) == repr(fitted)


def test_score_is_one_minus_the_share_of_variance_left(fitted):
    series = waves(120, seed=3)
    windows = np.stack([series[i : i + 30] for i in range(91)])
    targets = windows[:, 24:]
    error = np.square(fitted.predict(windows[:, :24]) - targets).sum()
    expected = 1 - error / np.square(targets - targets.mean()).sum()
    assert fitted.score(series) == pytest.approx(expected, rel=1e-5)


def test_bad_input_is_refused(fitted):
    with pytest.raises(AttangentError, match=r"windows have shape \(23, 2\), expected \(..., 24, 2\)"):
        fitted.predict(waves(23))
    with pytest.raises(AttangentError, match="not fitted"):
        clone(fitted).predict(waves(24))
    hole = waves(300)
    hole[7, 1] = np.nan
    with pytest.raises(AttangentError, match=r"train is not finite at index \(7, 1\)"):
        clone(fitted).fit(hole)
    with pytest.raises(AttangentError, match="train has 29 times, expected at least look-back"):
        clone(fitted).fit(waves(29))
    with pytest.raises(AttangentError, match="validation has 1 channels, expected 2"):
        clone(fitted).fit(waves(300), waves(100, 1))
    with pytest.raises(AttangentError, match="cannot be read as numbers"):
        clone(fitted).fit(["a"] * 300)


@pytest.mark.parametrize("maker", [NLinear, DLinear, RLinear])
def test_linear_models_by_gradients_learn_waves(maker):
    train, held_out = waves(600, noise=0.02), waves(300, noise=0.02, seed=1)
    plan = Training(epochs=12, rate=1e-2, patience=12)
    kind = maker(24, 6, training=plan)
    assert kind.fit(train, held_out).score(held_out) > 0.95


def test_nlinear_comes_near_the_closed_form():
    train, held_out = waves(1200, noise=0.3), waves(400, noise=0.3, seed=1)
    plan = Training(epochs=30, rate=3e-3, patience=30, batch=64, lower_rate=False)
    by_gradients = NLinear(24, 4, plan).fit(train, held_out)
    closed = LinearForecaster(24, 4).fit(train, held_out)
    assert by_gradients.score(held_out) == pytest.approx(closed.score(held_out), abs=0.02)
