"""The tests of `papers/p5/model.py`."""

import pytest

from attangent.audit import Verdict
from attangent.papers.p5_forecasting.claims import model
from attangent.papers.p5_forecasting.theory.attention_model import ScalarAttention
from tests.papers.harness import ClaimSuite, checking, ours

SMALLER = {"P5/lemma-i.3": {"widths": [32, 64, 96, 128]}}
"""Settings that show the same in less time."""
check = checking(SMALLER, seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/lemma-e.5": "holds",
        "P5/zero-initialisation": "violated",
        "P5/zero-initialisation-repaired": "holds",
        "P5/lemma-i.3": "not reproduced",  # its proof decides
        "P5/lemma-i.3-repaired": "holds",
        "P5/lemma-i.4": "holds",
    }
    broken = {
        "P5/zero-initialisation-repaired": {"init": "independent"},
    }
    benign = {
        "P5/zero-initialisation": {"init": "symmetric"},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding))


@pytest.mark.parametrize(("method", "found"), [("gradient", "holds"), ("attention", "violated")])
def test_a_wrong_gradient_is_found_out(monkeypatch, method, found):
    """Part 6 is written out: the library's own gradient takes no part in it."""
    right = getattr(ScalarAttention, method)
    monkeypatch.setattr(ScalarAttention, method, lambda self, *data: 1.0001 * right(self, *data))
    assert check("P5/lemma-e.5").verdict == found


def test_neurons_that_keep_their_direction_would_be_believed(monkeypatch):
    monkeypatch.setattr(model, "shares_towards", lambda settings, seed: [1.0, 1.0])
    assert check("P5/lemma-i.3").verdict is Verdict.MEASURED
    assert check("P5/lemma-i.3-repaired").verdict is Verdict.HOLDS


def test_neurons_that_turn_at_the_start_are_found_out(monkeypatch):
    monkeypatch.setattr(model, "shares_towards", lambda settings, seed: [0.9])
    assert check("P5/lemma-i.3-repaired").verdict is Verdict.VIOLATED


def test_attention_that_does_not_add_up_is_found_out(monkeypatch):
    right = ScalarAttention.attention
    monkeypatch.setattr(ScalarAttention, "attention", lambda self, X: right(self, X) - 0.002)
    assert check("P5/lemma-i.4").judgements["step"].verdict is Verdict.VIOLATED
