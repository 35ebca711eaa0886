"""One conformance suite for every forecaster of the registry."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from attangent.forecast import ModelName
from attangent.forecast.data.panel import Panel
from attangent.forecast.models import MODELS
from attangent.forecast.pipeline.combination import model_names

RNG = np.random.default_rng(0)
SERIES = [
    20 + np.sin(np.arange(420) / 3) + 0.1 * RNG.normal(size=420),
    -5 + np.cumsum(RNG.normal(size=200)),
    RNG.poisson(0.3, 90).astype(float),
    np.full(70, 3.0),
    np.zeros(40),
    np.array([1.0, 4.0, 2.0]),
]
PANEL = Panel.of(SERIES, 12)


def forecasts_of(index, panel, horizon=5):
    """Members of one model, with those of all models before it to fall back on."""
    earlier = {}
    for model in MODELS[:index]:
        earlier |= model.forecast(panel, horizon, earlier)
    return MODELS[index].forecast(panel, horizon, earlier)


@pytest.fixture(params=range(len(MODELS)), ids=[type(model).__name__ for model in MODELS], scope="module")
def index(request):
    return request.param


def test_members_are_finite_and_named_after_their_family(index):
    found = forecasts_of(index, PANEL)
    assert {name.partition("-")[0] for name in found} == set(MODELS[index].families)
    for forecasts in found.values():
        assert forecasts.shape == (len(SERIES), 5)
        assert np.isfinite(forecasts).all()


def test_the_panel_is_not_changed_and_the_answer_is_the_same_twice(index):
    before = PANEL.values.copy()
    one, other = forecasts_of(index, PANEL), forecasts_of(index, PANEL)
    np.testing.assert_array_equal(PANEL.values, before)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_units_do_not_matter(index):
    positive = Panel.of([30 + values for values in SERIES[:3]], 12)
    scaled = replace(positive, values=1e4 * positive.values)
    one, other = forecasts_of(index, positive), forecasts_of(index, scaled)
    for name in one:
        np.testing.assert_allclose(other[name], 1e4 * one[name], rtol=1e-5)


def test_constants_stay_constant(index):
    found = forecasts_of(index, Panel.of([np.full(600, 7.0), np.full(80, 2.0)], 12))
    for forecasts in found.values():
        np.testing.assert_allclose(forecasts, [[7.0] * 5, [2.0] * 5], rtol=1e-6)


def test_a_single_series_is_a_panel_of_one(index):
    for values in SERIES:
        for forecasts in forecasts_of(index, Panel.of([values], 12), horizon=1).values():
            assert forecasts.shape == (1, 1)
            assert np.isfinite(forecasts).all()


def test_every_name_of_a_model_is_an_option_and_no_other():
    assert set(get_args(ModelName)) == set(model_names())
    families = [name for model in MODELS for name in model.families]
    assert len(families) == len(set(families))
