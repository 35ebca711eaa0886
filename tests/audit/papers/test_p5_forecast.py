"""The claims of P5 on data, training, generalisation and real series: what they find, and the opposite."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.audit.papers.p5 import beyond, real
from attangent.forecast import LinearForecaster, Persistence
from attangent.forecast.theory.ssm import ResidualSSM
from attangent.kernels import ScalarAttention

FOUND = {
    "P5/claim-c.2": "violated",
    "P5/definition-6.1": "holds",
    "P5/lemma-e.5": "holds",
    "P5/zero-initialisation": "holds",
    "P5/lemma-i.3": "violated",
    "P5/lemma-i.4": "measured",
    "P5/lemma-i.5": "holds",
    "P5/theorem-5.2-convergence": "measured",
    "P5/theorem-5.2-asymmetry": "violated",
    "P5/theorem-5.3": "violated",
    "P5/proposition-6.3-attention": "holds",
    "P5/proposition-6.3-linear": "violated",
    "P5/section-7.1": "violated",
    "P5/section-7.2": "violated",
}

REAL = {"P5/figure-1a": "holds", "P5/sign-inconsistency-real": "violated"}


def check(id, seed=1, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


def measured(finding, part):
    return next(c.measured for c in finding.conclusions if part in c.name)


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    finding = check(id)
    assert finding.verdict == verdict
    assert all(c.kept for c in finding.conclusions if not c.claimed and "risk with" not in c.name)


THE_OTHER_WAY = {
    "P5/claim-c.2": ({"tolerance": 0.5}, "holds"),
    "P5/zero-initialisation": ({"init": "independent"}, "violated"),
    "P5/lemma-i.3": ({"steps": 0}, "measured"),
    "P5/lemma-i.4": ({"constant": 0.0}, "violated"),
    "P5/lemma-i.5": ({"constant": 0.0}, "violated"),
    "P5/theorem-5.2-convergence": ({"rate": 2.5}, "violated"),
    "P5/theorem-5.2-asymmetry": ({"m": 2, "steps": 300, "n": 64, "seed": 2}, "measured"),
    "P5/theorem-5.3": ({"m": 2, "steps": 300, "n": 64, "seed": 2}, "holds"),
    "P5/proposition-6.3-attention": ({"sigma": 1.0, "steps": 50}, "violated"),
    "P5/proposition-6.3-linear": ({"corrected": True}, "holds"),
    "P5/section-7.1": ({"mixing": False, "draws": 50}, "holds"),
    "P5/section-7.2": ({"proposed": ["position bias, values"], "others": []}, "holds"),
}


@pytest.mark.parametrize(
    ("id", "changes", "verdict"), [(k, *v) for k, v in THE_OTHER_WAY.items()], ids=THE_OTHER_WAY
)
def test_each_can_find_the_opposite(id, changes, verdict):
    assert check(id, **changes).verdict == verdict


def test_a_wrong_wedge_is_found_out(monkeypatch):
    right = ResidualSSM.wedge.fget
    monkeypatch.setattr(ResidualSSM, "wedge", property(lambda self: 1.1 * right(self)))
    assert check("P5/definition-6.1").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("method", ["gradient", "attention"])
def test_a_wrong_gradient_is_found_out(monkeypatch, method):
    right = getattr(ScalarAttention, method)
    monkeypatch.setattr(ScalarAttention, method, lambda self, *data: 1.0001 * right(self, *data))
    assert check("P5/lemma-e.5").verdict is Verdict.VIOLATED


def test_too_little_data_keeps_the_linear_network_off_the_noise_level():
    finding = check("P5/proposition-6.3-linear", corrected=True, n=10)
    assert finding.verdict is Verdict.VIOLATED
    assert measured(finding, "least squares") > 1.05


def test_a_wrong_gradient_in_many_dimensions_is_found_out(monkeypatch):
    right = beyond.printed_gradient
    monkeypatch.setattr(beyond, "printed_gradient", lambda *a: right(*a) + 1e-6)
    assert measured(check("P5/section-7.1", draws=5), "gap of the gradient") > 1e-9


def test_too_few_steps_leave_convergence_open():
    assert check("P5/theorem-5.2-convergence", most_steps=3, rate=0.01).verdict is Verdict.OPEN


def test_the_linear_network_is_within_five_percent_of_its_risk():
    for seed in range(3):
        assert measured(check("P5/proposition-6.3-linear", seed), "least squares") == pytest.approx(
            1, abs=0.05
        )


def test_real_claims_are_open_without_data(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    for id in REAL:
        finding = check(id)
        assert finding.verdict is Verdict.OPEN
        assert "ATTANGENT_DATA" in finding.remark


@pytest.fixture
def data():
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder or not (Path(folder) / "ett").is_dir():
        pytest.skip("set ATTANGENT_DATA to a folder with ett/ETTh1.csv.gz to run this")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(("id", "verdict"), REAL.items(), ids=REAL)
def test_what_the_audit_finds_on_real_data(id, verdict):
    finding = check(id, models={"transformer": 30})
    assert finding.verdict == verdict


@pytest.mark.usefixtures("data")
def test_figure_1a_would_fall_if_a_better_model_stood_for_the_transformer(monkeypatch):
    def stand_in(settings, seed):
        return {"transformer": LinearForecaster(settings.lookback + 100, settings.horizon)}

    monkeypatch.setattr(real, "_forecasters", stand_in)
    finding = check("P5/figure-1a", models={"transformer": 60}, series=["ETTh1"])
    assert finding.verdict is Verdict.VIOLATED


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


def test_the_same_finding_twice():
    first, second = (check("P5/section-7.2", steps=5, test=100) for _ in range(2))
    assert first.numbers == second.numbers
    assert torch.get_num_threads() == 1
