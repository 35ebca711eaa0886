"""The tests of `papers/p3/repairs_steps.py`."""

import pytest

from attangent.papers.p3_two_stage.claims import noise_answers, repairs_steps
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/lemma-6-repaired": "holds",
        "P3/lemma-7-repaired": "holds",
        "P3/equation-21-repaired": "holds",
        "P3/assumption-2-repaired": "holds",
        "P3/activation-count-repaired": "holds",
        "P3/equation-23-repaired": "holds",
        "P3/definition-5-repaired": "holds",
        "P3/signal-dominates-noise-repaired": "holds",
    }
    broken = {
        "P3/equation-21-repaired": {"independent_labels": True},
    }


FALSIFIED = {
    "P3/lemma-6-repaired": ("flips_by_turning", lambda part, U, norm: part.labels[:, 0].abs().sum(-1)),
    "P3/lemma-7-repaired": ("changed_share", lambda settings, d, seed: 0.25),
    "P3/activation-count-repaired": (
        "active_counts",
        lambda settings, d, seed: 0.9 + 0 * _counts(settings, d),
    ),
    "P3/equation-23-repaired": ("optimum", lambda settings, d, seed: (0.1, 0.7, 0.2)),
    "P3/definition-5-repaired": ("telling_shares", lambda settings, L, seed: _counts(settings, 8).flatten()),
    "P3/signal-dominates-noise-repaired": ("signal_over_noise", lambda settings, d, seed: (0.5, 0.5)),
}


def _counts(settings, d):
    import torch

    return torch.linspace(0.2, 0.3, 12, dtype=torch.float64).reshape(2, 6)


@pytest.mark.parametrize("id", FALSIFIED)
def test_it_can_fail(monkeypatch, id):
    monkeypatch.setattr(repairs_steps, *FALSIFIED[id])
    assert check(id).verdict.failed


def test_longer_tokens_are_found_out(monkeypatch):
    class Longer(repairs_steps.TwoStageData):
        def sample(self, *given, **named):
            prompts = super().sample(*given, **named)
            return type(prompts)(1.5 * prompts.x1, *[getattr(prompts, f) for f in list(vars(prompts))[1:6]])

    monkeypatch.setattr(repairs_steps, "TwoStageData", Longer)
    assert check("P3/assumption-2-repaired").verdict.failed


def test_a_wrong_mean_is_found_out(monkeypatch):
    right = noise_answers.mean_answers
    monkeypatch.setattr(
        noise_answers, "mean_answers", lambda *given: {name: 2 * mean for name, mean in right(*given).items()}
    )
    assert check("P3/equation-21-repaired").verdict.failed
