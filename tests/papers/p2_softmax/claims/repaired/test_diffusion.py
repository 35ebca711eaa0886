"""The tests of `papers/p2/repaired/diffusion.py`."""

from dataclasses import replace

import pytest

from attangent.audit import Verdict
from attangent.papers.p2_softmax.claims.approximation import Line
from attangent.papers.p2_softmax.claims.repaired import diffusion
from attangent.papers.p2_softmax.diffusion import ErrorTerms, ExactScore
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/claim-g.1-repaired": "holds",
        "P2/sampling-printed-time-repaired": "holds",
        "P2/equation-6-repaired": "holds",
        "P2/theorem-g.4-repaired": "holds",
    }


def test_the_factor_one_is_found_out(monkeypatch):
    monkeypatch.setattr(ErrorTerms, "bound", property(lambda self: self.printed_bound))
    assert check("P2/claim-g.1-repaired").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("id", ["P2/sampling-printed-time-repaired", "P2/equation-6-repaired"])
def test_a_wrong_score_is_found_out(monkeypatch, id):
    class Wrong(ExactScore):
        def score(self, t, x):
            return 1.3 * super().score(t, x)

    monkeypatch.setattr(diffusion, "ExactScore", Wrong)
    assert check(id).verdict is Verdict.VIOLATED


def test_a_function_with_a_jump_is_not_approximated_so_fast(monkeypatch):
    right = Line.draw.__func__

    def jump(cls, settings, seed):
        line = right(cls, settings, seed)
        return replace(line, values=line.values.sign())

    monkeypatch.setattr(Line, "draw", classmethod(jump))
    assert check("P2/theorem-g.4-repaired").verdict is Verdict.VIOLATED
