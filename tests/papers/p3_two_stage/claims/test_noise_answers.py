"""The tests of `noise_answers.py`."""

import pytest
import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import noise_answers
from attangent.papers.p3_two_stage.claims.noise_answers import mean_answers
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, attend
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from tests.papers.harness import ClaimSuite, checking

SMALLER = {
    "P3/proposition-6": {"lengths": [33, 129, 257, 513], "draws": 200},
    "P3/equation-21": {"dimensions": [6, 8, 10, 12]},
    "P3/proposition-7": {"lengths": [33, 129, 257, 513]},
}
"""Settings that show the same in less time."""


check = checking(SMALLER)


class TestClaims(ClaimSuite):
    found = {
        "P3/proposition-6": "holds",
        "P3/equation-21": "violated",
        "P3/proposition-7": "measured",
    }
    broken = {
        "P3/proposition-6": {"independent_labels": False},
    }
    benign = {
        "P3/equation-21": {"independent_labels": True},
    }
    check = staticmethod(check)


class TestRepairs(ClaimSuite):
    found = {"P3/equation-21-repaired": "holds"}
    broken = {"P3/equation-21-repaired": {"independent_labels": True}}


def test_labels_of_the_data_are_outside_the_hypotheses_of_proposition_6():
    assert check("P3/proposition-6", independent_labels=False).verdict is Verdict.NOT_REPRODUCED


def test_changes_that_do_not_fall_are_found_out(monkeypatch):
    monkeypatch.setattr(noise_answers, "_largest_change", lambda settings, L, seed: L**-0.1)
    assert check("P3/proposition-7").verdict is Verdict.NOT_REPRODUCED


def test_the_mean_answers_are_those_of_long_prompts():
    data = TwoStageData(8, 20_001, u=1.0, r=1.0)
    noise = ReluAttention(8, std=1.0, runs=3, seed=1).weights
    prompts = data.sample(1, runs=3, seed=1)
    means = mean_answers(data, noise.W, noise.V, prompts.p, prompts.q)
    for name, part, U in (("P", prompts.p, noise.W), ("Q", prompts.q, noise.V)):
        answers = attend(part, U, torch.ones(1, dtype=torch.float64))
        assert answers.flatten().tolist() == pytest.approx(means[name].flatten().tolist(), abs=0.05)


def test_a_wrong_mean_is_found_out(monkeypatch):
    right = noise_answers.mean_answers
    monkeypatch.setattr(
        noise_answers, "mean_answers", lambda *given: {name: 2 * mean for name, mean in right(*given).items()}
    )
    assert check("P3/equation-21-repaired").verdict.failed
