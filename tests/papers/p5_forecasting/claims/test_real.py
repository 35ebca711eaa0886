"""The tests of `papers/p5/real.py`."""

import os
from pathlib import Path

import numpy as np
import pytest

from attangent.audit import Verdict
from attangent.papers.p5_forecasting import LinearForecaster, Persistence
from attangent.papers.p5_forecasting.claims import real
from tests.papers.harness import checking

REAL = {"P5/figure-1a": {"smaller setting"}, "P5/sign-inconsistency-real": {"holds", "open"}}
WANTED = {"P5/figure-1a": "ETTh1 and ETTh2", "P5/sign-inconsistency-real": "ETTh1"}

check = checking(seed=1)


def test_without_the_series_of_the_paper_the_weather_stands_in_and_says_so(monkeypatch):
    monkeypatch.setenv("ATTANGENT_DATA", "/nowhere")
    monkeypatch.setattr(
        real, "_forecasters", lambda s, seed: {"Autoformer": Persistence(s.lookback, s.horizon)}
    )
    for id in WANTED:
        finding = check(id)
        assert finding.verdict not in (Verdict.HOLDS, Verdict.VIOLATED)
        assert finding.differs[-1] == f"1,461 days of weather in Seattle instead of {WANTED[id]}"
        assert "attangent data get ett" in finding.remark


@pytest.fixture
def data():
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder or not (Path(folder) / "ett").is_dir():
        pytest.skip("set ATTANGENT_DATA to a folder with ett/ETTh1.csv.gz to run this")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(("id", "verdicts"), REAL.items(), ids=REAL)
def test_what_the_audit_finds_on_real_data(id, verdicts):
    one = {"series": ["ETTh1"], "epochs": 3} if id == "P5/figure-1a" else {}
    finding = check(id, **one)
    assert finding.verdict in verdicts


@pytest.mark.usefixtures("data")
def test_figure_1a_would_fall_if_a_better_model_stood_for_the_transformer(monkeypatch):
    def stand_in(settings, seed):
        return {"Autoformer": LinearForecaster(settings.lookback + 100, settings.horizon)}

    monkeypatch.setattr(real, "_forecasters", stand_in)
    (error, _) = check("P5/figure-1a", series=["ETTh1"]).conclusions
    assert error.kept is False
    assert error.interval[1] < 1.0


def test_equal_errors_are_undecided():
    errors = np.random.default_rng(0).random(400)
    low, high = real.ratio_interval(errors, errors[::-1].copy(), 20, 0)
    assert low < 1.0 < high
    low, high = real.ratio_interval(1.2 * errors, errors, 20, 0)
    assert low == pytest.approx(1.2) == high


def test_the_factor_of_parameters_depends_on_the_horizon():
    assert real.parameter_ratio(96) > 1000
    assert real.parameter_ratio(720) < 200


def _synthetic(at_flips, elsewhere):
    """Excess errors of a model where signs flip and elsewhere, beside a linear error of 1 and of .5."""
    signs = np.arange(400)[:, None] % 4 == 0
    noise = 0.01 * np.random.default_rng(0).standard_normal((400, 1))
    return np.where(signs, at_flips, elsewhere) + noise, np.where(signs, 1.0, 0.5), signs


@pytest.mark.parametrize(
    ("at_flips", "elsewhere", "sign"), [(0.1, -0.05, 1), (-0.1, -0.02, -1), (0.2, 0.1, 0), (0.1, 0.2, -1)]
)
def test_the_statistic_has_the_sign_of_the_effect(at_flips, elsewhere, sign):
    difference, low, high = real.relative_difference(*_synthetic(at_flips, elsewhere), 40, 0)
    assert low <= difference <= high
    assert (low > 0) - (high < 0) == sign


def test_whether_training_has_stopped_is_read_from_the_validation_errors():
    model = Persistence(4, 1)
    assert real._has_stopped("a model without training", model).met
    for history, stopped in (
        ([3.0, 2.0, 1.0], False),
        ([3.0, 1.0, 2.0, 2.0], False),
        ([3.0, 1.0, 2.0, 2.0, 1.5], True),
    ):
        model.history_ = history
        assert real._has_stopped("a model", model).met is stopped
