"""The tests of `papers/p3/identities.py`."""

import dataclasses

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims import identities
from attangent.papers.p3_two_stage.theory.attention import ReluAttention
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/linear-decomposition": "holds",
        "P3/proposition-1": "holds",
        "P3/proposition-2": "violated",
        "P3/proposition-2-repaired": "holds",
        "P3/proposition-5": "holds",
    }
    broken = {
        "P3/linear-decomposition": {"off_diagonal": 0.5},
        "P3/proposition-1": {"second_rate": 1.0},
        "P3/proposition-5": {"noise_factor": 1.5},
    }
    benign = {
        "P3/proposition-2": {"p": 1.0},
    }


def test_a_wrong_gradient_is_found_out(monkeypatch):
    right = ReluAttention.gradient

    def wrong(self, prompts):
        return right(self, prompts).map(lambda part: part * (1 + 1e-9))

    monkeypatch.setattr(ReluAttention, "gradient", wrong)
    assert check("P3/proposition-2-repaired").verdict is Verdict.VIOLATED


def test_the_printed_gradient_is_compared_as_printed(monkeypatch):
    monkeypatch.setattr(identities, "printed_gradient", lambda model, prompts, signs: model.gradient(prompts))
    assert check("P3/proposition-2").verdict is Verdict.HOLDS


def test_the_split_is_found_out_where_signal_takes_noise(monkeypatch):
    right = identities.train

    def leaking(*given, **named):
        course = right(*given, **named)
        end = course.ends[-1]
        leaked = dataclasses.replace(end, signal=end.signal.plus(end.noise, 1e-6))
        return dataclasses.replace(course, ends=(*course.ends[:-1], leaked))

    monkeypatch.setattr(identities, "train", leaking)
    assert check("P3/proposition-1").verdict is Verdict.VIOLATED
