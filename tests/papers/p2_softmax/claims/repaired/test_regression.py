"""The tests of `papers/p2/repaired/regression.py`."""

from attangent.audit import Verdict
from attangent.kernels import SoftmaxNetwork
from attangent.papers.p2_softmax.claims.repaired import regression
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/equation-25-repaired": "holds",
        "P2/appendix-f-features-repaired": "holds",
        "P2/theorem-g.2-repaired": "holds",
        "P2/theorem-4.2-poly-repaired": "holds",
    }
    broken = {
        "P2/equation-25-repaired": {"tolerance": 1e-9},
        "P2/theorem-g.2-repaired": {"rate": 2.2},
    }


def test_features_of_another_kernel_are_found_out(monkeypatch):
    right = SoftmaxNetwork.kernel
    monkeypatch.setattr(SoftmaxNetwork, "kernel", lambda self, X: 1.001 * right(self, X))
    assert check("P2/appendix-f-features-repaired").verdict is Verdict.VIOLATED


def test_more_steps_than_stated_are_found_out(monkeypatch):
    right = regression.steps_to_fit

    def slower(*given):
        lam, steps = right(*given)
        return lam, 1.1 * steps

    monkeypatch.setattr(regression, "steps_to_fit", slower)
    assert check("P2/theorem-4.2-poly-repaired").verdict is Verdict.VIOLATED
