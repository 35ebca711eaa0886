"""The tests of `papers/p5/real.py`."""

import os
from pathlib import Path

import numpy as np
import pytest

from attangent.audit import Verdict
from attangent.papers.p5_forecasting import LinearForecaster, Persistence
from attangent.papers.p5_forecasting.claims import real
from tests.papers.harness import checking

REAL = {"P5/figure-1a": "measured", "P5/sign-inconsistency-real": "holds"}
WANTED = {"P5/figure-1a": "ETTh1 and ETTh2", "P5/sign-inconsistency-real": "ETTh1"}

check = checking(seed=1)


def test_without_the_series_of_the_paper_the_weather_stands_in_and_says_so(monkeypatch):
    monkeypatch.setenv("ATTANGENT_DATA", "/nowhere")
    monkeypatch.setattr(real, "_forecasters", lambda s, seed: {"x": Persistence(s.lookback, s.horizon)})
    for id, options in (("P5/figure-1a", {"models": {"x": 1}}), ("P5/sign-inconsistency-real", {})):
        finding = check(id, **options)
        assert finding.verdict in (Verdict.MEASURED, Verdict.NOT_REPRODUCED, Verdict.OPEN)
        assert finding.differs[-1] == f"1,461 days of weather in Seattle instead of {WANTED[id]}"
        assert "attangent data get ett" in finding.remark


@pytest.fixture
def data():
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder or not (Path(folder) / "ett").is_dir():
        pytest.skip("set ATTANGENT_DATA to a folder with ett/ETTh1.csv.gz to run this")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(("id", "verdict"), REAL.items(), ids=REAL)
def test_what_the_audit_finds_on_real_data(id, verdict):
    one = {"series": ["ETTh1"]} if id == "P5/figure-1a" else {}
    finding = check(id, models={"transformer": 30}, **one)
    assert finding.verdict == verdict
    assert all(hypothesis.met for hypothesis in finding.hypotheses)  # validation errors have stopped falling


@pytest.mark.usefixtures("data")
def test_figure_1a_would_fall_if_a_better_model_stood_for_the_transformer(monkeypatch):
    def stand_in(settings, seed):
        return {"transformer": LinearForecaster(settings.lookback + 100, settings.horizon)}

    monkeypatch.setattr(real, "_forecasters", stand_in)
    finding = check("P5/figure-1a", models={"transformer": 60}, series=["ETTh1"])
    assert finding.verdict is Verdict.NOT_REPRODUCED


@pytest.mark.usefixtures("data")
def test_excess_error_on_flips_would_be_seen(monkeypatch):
    class WrongAtFlips(Persistence):
        """Far off wherever the window ends near zero, where signs flip."""

        def _predict(self, windows):
            answer = super()._predict(windows)
            return answer + 3.0 * (np.abs(windows[:, -1:]) < 0.3)

    monkeypatch.setattr(real, "_forecasters", lambda s, seed: {"x": WrongAtFlips(s.lookback, s.horizon)})
    finding = check("P5/sign-inconsistency-real")
    assert finding.verdict is Verdict.HOLDS
    assert finding.numbers["ratio"] > 1


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
