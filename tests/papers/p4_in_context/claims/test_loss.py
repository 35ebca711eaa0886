"""The tests of `papers/p4/loss.py`."""

from attangent.audit import Verdict
from attangent.icl import Dictionary
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/lemma-5": "violated",
        "P4/lemma-5-repaired": "holds",
        "P4/lemma-6": "holds",
        "P4/equation-26": "violated",
        "P4/equation-26-repaired": "holds",
        "P4/equation-33": "violated",
        "P4/equation-37": "holds",
        "P4/equation-66": "holds",
    }
    broken = {
        "P4/lemma-6": {"gamma": 2.0},
        "P4/equation-26-repaired": {"N": 4, "m": 14, "K": 40},
        "P4/equation-37": {"inverted": True},
        "P4/equation-66": {"alpha_factor": 1.001},
    }
    benign = {
        "P4/lemma-5": {"tau": 1e-6},
        "P4/equation-33": {"transposed": True},
    }


def test_a_wrong_noise_is_found_out(monkeypatch):
    right = Dictionary.prompts

    def noisier(self, count, tasks, seed):
        return right(self.with_noise(2 * self.tau), count, tasks, seed)

    monkeypatch.setattr(Dictionary, "prompts", noisier)
    assert check("P4/lemma-5-repaired").verdict is Verdict.VIOLATED
