import pytest

from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import repaired_kernel as kernel
from attangent.papers.p1_prefix.network import PrefixNetwork
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/definition-g.1-repaired": "holds",
        "P1/lemma-3.1-repaired": "holds",
        "P1/lemma-i.6-repaired": "holds",
        "P1/lemma-h.9-repaired": "holds",
        "P1/lemma-h.10-repaired": "holds",
        "P1/lemma-k.1-repaired": "holds",
    }
    broken = {
        "P1/lemma-k.1-repaired": {"delta": 1000.0},
        "P1/lemma-3.1-repaired": {"factor": 0.001},
    }


def test_a_kernel_that_is_off_is_found_out(monkeypatch):
    right = kernel.written_out
    monkeypatch.setattr(kernel, "written_out", lambda X, W, a: 1.0001 * right(X, W, a))
    assert check("P1/definition-g.1-repaired").verdict is Verdict.VIOLATED


def test_outputs_that_are_too_large_are_found_out(monkeypatch):
    right = PrefixNetwork.forward
    monkeypatch.setattr(PrefixNetwork, "forward", lambda self, X: 1.2 * right(self, X))
    assert check("P1/lemma-i.6-repaired").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("id", ["P1/lemma-h.9-repaired", "P1/lemma-h.10-repaired"])
def test_a_gradient_without_values_is_found_out(monkeypatch, id):
    def without_values(self, X, Y):
        return self.tangent(X, kind="paper").pull_back(self.forward(X) - Y)

    monkeypatch.setattr(PrefixNetwork, "gradient", without_values)
    assert check(id).verdict is Verdict.VIOLATED
