"""The tests of `papers/p4/softmax.py`."""

from attangent.audit import Verdict
from attangent.papers.p4_in_context.claims import softmax
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/lemma-1": "holds",
        "P4/lemma-2": "holds",
        "P4/lemma-3": "holds",
        "P4/lemma-4": "holds",
        "P4/equation-46": "holds",
    }
    broken = {
        "P4/lemma-2": {"constant": 0.5},
        "P4/lemma-3": {"factor": 0.9},
        "P4/lemma-4": {"drawn_tau": 0.09},
        "P4/equation-46": {"constant": 0.02},
    }


def test_softmax_gradient_claim_finds_a_wrong_formula(monkeypatch):
    right = softmax._printed
    monkeypatch.setattr(softmax, "_printed", lambda m, h, k: right(m, h, k) * (1 + 1e-6))
    assert check("P4/lemma-1").verdict is Verdict.VIOLATED
